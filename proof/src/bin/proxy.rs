//! `proxy ADDRESS SERVER`: passes connections on from a free port of one address to a server, until it is killed. It brings
//! those who are outside of a network namespace to what listens on its loopback device.

use std::net::{IpAddr, SocketAddr};

use taskgate_proof::proxy::Proxy;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let address: IpAddr = arguments.next().and_then(|text| text.parse().ok()).expect("an address");
    let server: SocketAddr = arguments.next().and_then(|text| text.parse().ok()).expect("a server");
    let proxy = Proxy::start_on(address, &[server]);
    eprintln!("http://{}/", proxy.address());
    loop {
        std::thread::park();
    }
}
