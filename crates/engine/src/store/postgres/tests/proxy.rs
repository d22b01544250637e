use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// What happens to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// It works.
    Fine,
    /// It is cut when a `COMMIT` has gone through; then it is as the first says.
    CutAfterCommit,
    /// It is cut in front of a `COMMIT`.
    CutBeforeCommit,
    /// It swallows a `COMMIT` and everything after, and tells the server nothing: only the client is told.
    SwallowCommit,
    /// It swallows a `COMMIT` and everything after, and tells nobody: as if the node had been frozen.
    FreezeAtCommit,
    /// Nobody gets through, nor does the next commit and what was sent with it. The server is told nothing.
    LoseCommitForLong,
    /// Nobody gets through, and those who were connected are cut off at the next commit.
    CutAfterCommitForLong,
    /// Nobody gets through.
    Down,
}

/// A network between a store and the server, which breaks when told to. A cut happens once.
#[derive(Debug, Clone)]
pub struct Proxy {
    port: u16,
    network: Arc<Mutex<Network>>,
}

/// A simple query, as it goes over the wire.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// And its answer.
const COMMITTED: &[u8] = b"C\0\0\0\x0bCOMMIT\0";

impl Proxy {
    /// A network to the server of this URL.
    pub async fn to(url: &str) -> Proxy {
        let (_, rest) = url.split_once('@').unwrap();
        let server = rest.split('/').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy {
            port: listener.local_addr().unwrap().port(),
            network: Arc::new(Mutex::new(Network::Fine)),
        };
        let network = Arc::clone(&proxy.network);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *network.lock() != Network::Down {
                    let (server, network) = (server.clone(), Arc::clone(&network));
                    tokio::spawn(async move { connect(client, &server, network).await });
                }
            }
        });
        proxy
    }

    /// The same URL through this network.
    pub fn through(&self, url: &str) -> String {
        let (user, rest) = url.split_once('@').unwrap();
        let (_, database) = rest.split_once('/').unwrap();
        format!("{user}@127.0.0.1:{}/{database}", self.port)
    }

    pub fn set(&self, network: Network) {
        *self.network.lock() = network;
    }

    pub fn get(&self) -> Network {
        *self.network.lock()
    }
}

async fn connect(client: TcpStream, server: &str, network: Arc<Mutex<Network>>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let deaf = Arc::new(AtomicBool::new(false));
    let mut back = tokio::spawn(answer(from_server, to_client, Arc::clone(&deaf)));
    let kept = forward(from_client, to_server, &network, &deaf).await;
    let frozen = matches!(kept, Some((_, Network::FreezeAtCommit)));
    if frozen {
        tokio::time::sleep(Duration::from_secs(60)).await;
    } else if deaf.load(Ordering::SeqCst) {
        // The server has committed when it says so, and nobody hears it.
        let _ = (&mut back).await;
    }
    back.abort();
    // Aborting it has closed the client's half of the connection. The server's may stay open without a word.
    if kept.is_some() && !deaf.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
}

/// Ends when the connection does, or when a `COMMIT` has been answered that the client must not hear of.
async fn answer(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, deaf: Arc<AtomicBool>) {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let Some(length) = from.read(&mut bytes).await.ok().filter(|length| *length > 0) else { return };
        let bytes = &bytes[..length];
        if !deaf.load(Ordering::SeqCst) {
            let Ok(()) = to.write_all(bytes).await else { return };
        } else if bytes.windows(COMMITTED.len()).any(|window| window == COMMITTED) {
            return;
        }
    }
}

/// Ends when the connection does. What it returns keeps the server's side of it open.
async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    network: &Mutex<Network>,
    deaf: &AtomicBool,
) -> Option<(OwnedWriteHalf, Network)> {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let length = from.read(&mut bytes).await.ok().filter(|length| *length > 0)?;
        let bytes = &bytes[..length];
        let commit = bytes.windows(COMMIT.len()).position(|window| window == COMMIT);
        let now = match (commit, &mut *network.lock()) {
            (
                Some(_),
                network @ (Network::CutAfterCommit
                | Network::CutBeforeCommit
                | Network::SwallowCommit
                | Network::FreezeAtCommit),
            ) => std::mem::replace(network, Network::Fine),
            (Some(_), network @ Network::CutAfterCommitForLong) => std::mem::replace(network, Network::Down),
            (Some(_), network @ Network::LoseCommitForLong) => {
                *network = Network::Down;
                Network::LoseCommitForLong
            }
            (_, Network::Down) => Network::Down,
            _ => Network::Fine,
        };
        let before = &bytes[..commit.unwrap_or(0)];
        match now {
            Network::Fine => to.write_all(bytes).await.ok()?,
            Network::CutAfterCommit | Network::CutAfterCommitForLong => {
                deaf.store(true, Ordering::SeqCst);
                to.write_all(bytes).await.ok()?;
                return Some((to, now));
            }
            Network::LoseCommitForLong => return Some((to, now)),
            Network::CutBeforeCommit => {
                to.write_all(before).await.ok()?;
                return None;
            }
            Network::SwallowCommit | Network::FreezeAtCommit => {
                to.write_all(before).await.ok()?;
                return Some((to, now));
            }
            Network::Down => return None,
        }
    }
}
