//! A TCP proxy between a client and its servers: takes turns, and can be told to lose what passes through it.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// What passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// Everything.
    Open,
    /// What clients say; what servers answer is thrown away.
    Deaf,
    /// Nothing, and nobody is told: as when a cable is pulled. What waits passes when it is opened again.
    Cut,
}

/// Listens on a port and hands each connection to the next server that takes it.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    servers: Mutex<Vec<SocketAddr>>,
    turn: AtomicUsize,
    passage: Mutex<Passage>,
    changed: Condvar,
    is_over: AtomicBool,
}

impl Proxy {
    /// In front of these servers.
    pub fn start(servers: &[SocketAddr]) -> Proxy {
        Proxy::start_on(Ipv4Addr::LOCALHOST.into(), servers)
    }

    /// In front of these servers, on a free port of this address.
    pub fn start_on(address: IpAddr, servers: &[SocketAddr]) -> Proxy {
        let listener = TcpListener::bind((address, 0)).expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let shared = Arc::new(Shared {
            servers: Mutex::new(servers.to_vec()),
            turn: AtomicUsize::new(0),
            passage: Mutex::new(Passage::Open),
            changed: Condvar::new(),
            is_over: AtomicBool::new(false),
        });
        let proxy = Proxy { address, shared: shared.clone() };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let shared = shared.clone();
                thread::spawn(move || shared.carry(client));
            }
        });
        proxy
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, connections go to these servers.
    pub fn serve(&self, servers: &[SocketAddr]) {
        *self.shared.servers.lock().expect("nobody panics with it") = servers.to_vec();
    }

    /// From now on, this passes.
    pub fn set(&self, passage: Passage) {
        *self.shared.passage.lock().expect("nobody panics with it") = passage;
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.set(Passage::Open);
        // Wakes the thread that listens.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn carry(self: Arc<Self>, client: TcpStream) {
        self.wait_while_cut();
        // Without a server the client sees its connection close, as it would without a proxy.
        let Some(server) = self.connect() else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
        let shared = self.clone();
        thread::spawn(move || shared.pass(from_client, to_server, false));
        self.pass(server, client, true);
    }

    fn connect(&self) -> Option<TcpStream> {
        let servers = self.servers.lock().expect("nobody panics with it").clone();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        (0..servers.len()).find_map(|next| TcpStream::connect(servers[(turn + next) % servers.len()]).ok())
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream, is_answer: bool) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let passage = self.wait_while_cut();
            if !(is_answer && passage == Passage::Deaf) && to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        // The end is news as well, and does not pass where nothing does.
        self.wait_while_cut();
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }

    fn wait_while_cut(&self) -> Passage {
        let passage = self.passage.lock().expect("nobody panics with it");
        *self.changed.wait_while(passage, |passage| *passage == Passage::Cut).expect("nobody panics with it")
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::time::Duration;

    use super::*;

    /// A server that answers each line with its own name, and its address.
    fn server(name: &'static str) -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("it listens");
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || {
                    let mut lines = BufReader::new(client.try_clone().expect("a copy")).lines();
                    while let Some(Ok(_)) = lines.next() {
                        let _ = writeln!(&client, "{name}");
                    }
                });
            }
        });
        address
    }

    struct Client(BufReader<TcpStream>);

    impl Client {
        fn new(proxy: &Proxy) -> Client {
            let stream = TcpStream::connect(proxy.address()).expect("the proxy listens");
            stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
            Client(BufReader::new(stream))
        }

        fn say(&mut self) -> Option<String> {
            writeln!(self.0.get_ref(), "hello").ok()?;
            self.hear()
        }

        fn hear(&mut self) -> Option<String> {
            let mut line = String::new();
            self.0.read_line(&mut line).ok().filter(|count| *count > 0)?;
            Some(line.trim_end().to_owned())
        }
    }

    #[test]
    fn servers_take_turns_and_dead_ones_are_passed_over() {
        let dead = TcpListener::bind(("127.0.0.1", 0)).and_then(|gone| gone.local_addr()).expect("a port");
        let proxy = Proxy::start(&[server("a"), dead, server("b")]);
        let said: Vec<String> = (0..6).filter_map(|_| Client::new(&proxy).say()).collect();
        assert_eq!(said, ["a", "b", "b", "a", "b", "b"]);
        proxy.serve(&[dead]);
        assert_eq!(Client::new(&proxy).say(), None);
    }

    #[test]
    fn a_cut_holds_everything_back_and_answers_can_be_thrown_away() {
        let proxy = Proxy::start(&[server("a")]);
        let mut client = Client::new(&proxy);
        assert_eq!(client.say().as_deref(), Some("a"));
        proxy.set(Passage::Cut);
        assert_eq!(client.say(), None);
        assert_eq!(Client::new(&proxy).say(), None);
        proxy.set(Passage::Open);
        assert_eq!(client.hear().as_deref(), Some("a"));
        proxy.set(Passage::Deaf);
        assert_eq!(client.say(), None);
        proxy.set(Passage::Open);
        assert_eq!(client.say().as_deref(), Some("a"));
        assert_eq!(client.hear(), None);
    }
}
