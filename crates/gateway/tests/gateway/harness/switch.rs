//! A fixed address in front of servers that come and go.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_gateway::{HttpServer, ServerUrl, Speak, UpstreamKind, UpstreamSpec};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Passes connections on to whoever is behind it at the moment.
#[derive(Clone)]
pub struct Switch {
    addr: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    behind: Option<SocketAddr>,
    open: Vec<AbortHandle>,
    in_vain: usize,
}

impl Switch {
    /// With this server behind it.
    pub async fn start(behind: SocketAddr) -> Switch {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let addr = listener.local_addr().expect("bound");
        let state = Arc::new(Mutex::new(State { behind: Some(behind), ..State::default() }));
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut shared = shared.lock();
                // Without a server the connection just ends.
                let Some(behind) = shared.behind else {
                    shared.in_vain += 1;
                    continue;
                };
                let task = tokio::spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(behind).await {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
                shared.open.push(task.abort_handle());
            }
        });
        Switch { addr, state }
    }

    /// From now on this server is behind it, or none. Connections to the one before are cut off.
    pub fn turn(&self, behind: Option<SocketAddr>) {
        self.state.lock().behind = behind;
        self.cut();
    }

    /// How often somebody came while there was no server.
    pub fn in_vain(&self) -> usize {
        self.state.lock().in_vain
    }

    /// Cuts off all connections. New ones can be made.
    pub fn cut(&self) {
        self.state.lock().open.drain(..).for_each(|task| task.abort());
    }

    /// The upstream at this address, spoken to in this way.
    pub fn spec(&self, speak: Speak) -> UpstreamSpec {
        let url = ServerUrl::parse(&format!("http://{}/mcp", self.addr)).expect("a URL");
        UpstreamSpec { speak, ..UpstreamSpec::new("far", UpstreamKind::Http(HttpServer::new(url))) }
    }
}
