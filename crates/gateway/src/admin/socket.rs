use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{AdminReply, AdminRequest, Desk, Why};

/// The longest request. None is anywhere near it.
const LONGEST: u64 = 1 << 20;
/// The longest answer that is read.
const LONGEST_REPLY: u64 = 256 << 20;
/// How long a request may take to come, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an answer is waited for: much may be pruned.
const ANSWERED_WITHIN: Duration = Duration::from_secs(600);
/// How many are answered at a time; others wait.
const AT_ONCE: usize = 16;
/// How long to wait when no connection can be taken.
const NONE_LEFT: Duration = Duration::from_millis(500);

/// Who may connect besides the one who runs the gateway.
const SUPERUSER: u32 = 0;

/// Where the gateway listens that has this file open.
pub fn socket_of(store: &Path) -> PathBuf {
    let mut path = store.as_os_str().to_owned();
    path.push(".admin");
    path.into()
}

/// A socket beside the store's file: a request is a line of JSON, and so is its answer.
///
/// It exists for as long as this value does. Only who runs the gateway can connect.
#[derive(Debug)]
pub struct AdminSocket {
    path: PathBuf,
    serving: JoinHandle<()>,
}

impl AdminSocket {
    /// Listens, and answers from then on. Must be called by whoever holds the store's lock, so that what lies there is what a
    /// process has left that is gone.
    ///
    /// # Errors
    ///
    /// What the operating system says, such as of a path that is too long for a socket's.
    pub fn serve(store: &Path, desk: Desk) -> io::Result<AdminSocket> {
        let path = socket_of(store);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let owner = fs::metadata(&path)?.uid();
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let serving = tokio::spawn(async move {
            // It is never closed.
            while let Ok(place) = places.clone().acquire_owned().await {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let desk = desk.clone();
                        tokio::spawn(async move {
                            converse(stream, owner, desk).await;
                            drop(place);
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "`taskgate tasks` cannot connect");
                        tokio::time::sleep(NONE_LEFT).await;
                    }
                }
            }
        });
        Ok(AdminSocket { path, serving })
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        self.serving.abort();
        // What is not there need not go.
        let _ = fs::remove_file(&self.path);
    }
}

async fn converse(mut stream: UnixStream, owner: u32, desk: Desk) {
    // Between its making and its mode, others could connect where the umask is lax.
    let is_ours = stream.peer_cred().is_ok_and(|peer| peer.uid() == owner || peer.uid() == SUPERUSER);
    if !is_ours {
        return;
    }
    let (read, mut write) = stream.split();
    let mut line = String::new();
    let mut request = BufReader::new(read.take(LONGEST));
    if !matches!(timeout(PATIENCE, request.read_line(&mut line)).await, Ok(Ok(_))) {
        return;
    }
    let reply = match serde_json::from_str::<AdminRequest>(&line) {
        Ok(request) => desk.answer(request).await,
        Err(error) => AdminReply::Refused { why: Why::NoRequest, message: format!("no request: {error}") },
    };
    let Ok(mut text) = serde_json::to_vec(&reply) else { return };
    text.push(b'\n');
    // Whoever asked may be gone.
    let _ = timeout(PATIENCE, write.write_all(&text)).await;
}

/// Asks the gateway that has this store open. `None`: nobody listens, so nobody has it open who could answer.
///
/// # Errors
///
/// If what answers is no gateway of this version, or not run by whoever owns the store.
pub async fn ask(store: &Path, request: &AdminRequest) -> io::Result<Option<AdminReply>> {
    let mut stream = match UnixStream::connect(socket_of(store)).await {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        connected => connected?,
    };
    // Where others may write in the directory, one of them could answer in the gateway's stead.
    let (answers, owns) = (stream.peer_cred()?.uid(), fs::metadata(store)?.uid());
    if answers != owns && answers != SUPERUSER {
        let why = format!("it belongs to user {answers}, and the store to user {owns}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    let asked = async {
        stream.write_all(&line).await?;
        let mut reply = String::new();
        (&mut stream).take(LONGEST_REPLY).read_to_string(&mut reply).await?;
        Ok(Some(serde_json::from_str(&reply)?))
    };
    timeout(ANSWERED_WITHIN, asked).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
