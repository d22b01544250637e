use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::{AdminReply, AdminRequest, Desk, Why};

/// The longest request. None is anywhere near it.
const LONGEST: u64 = 1 << 20;

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
        let serving = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => drop(tokio::spawn(converse(stream, owner, desk.clone()))),
                    Err(error) => {
                        tracing::warn!(%error, "the socket for administration is closed");
                        return;
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
    if BufReader::new(read.take(LONGEST)).read_line(&mut line).await.is_err() {
        return;
    }
    let reply = match serde_json::from_str::<AdminRequest>(&line) {
        Ok(request) => desk.answer(request).await,
        Err(error) => AdminReply::Refused { why: Why::NoRequest, message: format!("no request: {error}") },
    };
    let Ok(mut text) = serde_json::to_vec(&reply) else { return };
    text.push(b'\n');
    // Whoever asked may be gone.
    let _ = write.write_all(&text).await;
}

/// Asks the gateway that listens there.
///
/// # Errors
///
/// If nobody listens, or what answers is no gateway of this version.
pub async fn ask(socket: &Path, request: &AdminRequest) -> io::Result<AdminReply> {
    let mut stream = UnixStream::connect(socket).await?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await?;
    Ok(serde_json::from_str(&reply)?)
}
