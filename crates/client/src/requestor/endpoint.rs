use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::transport::Link;
use crate::transport::http::{self, HttpServer};
use crate::transport::stdio::{self, StdioCommand};

/// Where a server is. It can be connected to as often as needed.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// At a URL.
    Url(HttpServer),
    /// A child process, started for each connection.
    Command(StdioCommand),
    /// Within this process.
    Memory(MemoryServer),
}

/// A server within this process: whatever yields a fresh connection to it.
#[derive(Clone)]
pub struct MemoryServer {
    name: String,
    connect: Arc<dyn Fn() -> Link + Send + Sync>,
}

impl fmt::Debug for MemoryServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryServer").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// A server within this process, under a name that stays the same.
    pub fn memory(name: impl Into<String>, connect: impl Fn() -> Link + Send + Sync + 'static) -> Endpoint {
        Endpoint::Memory(MemoryServer { name: name.into(), connect: Arc::new(connect) })
    }

    /// What the server is known by in handles and ledgers. It stays the same from one process to the next and shows no
    /// secrets: of the query of a URL, of a path that looks like it has a key in it, and of the arguments of a command there
    /// is only a digest. Credentials, headers and variables have no part in it.
    pub fn identity(&self) -> String {
        match self {
            Endpoint::Url(server) => {
                let url = server.url.as_url();
                let origin = url.origin().ascii_serialization();
                let (shown, mut hidden) = if is_plain(url.path()) {
                    (url.path(), String::new())
                } else {
                    ("/…", url.path().to_owned())
                };
                if let Some(query) = url.query() {
                    hidden.push('?');
                    hidden.push_str(query);
                }
                format!("{origin}{shown}{}", mark(&hidden))
            }
            Endpoint::Command(command) => {
                let cwd = command.cwd.as_ref().map(|cwd| cwd.to_string_lossy());
                let mut hidden = command.args.join("\0");
                hidden.extend(cwd.iter().map(|cwd| format!("\0\0{cwd}")));
                format!("command:{}{}", command.program, mark(&hidden))
            }
            Endpoint::Memory(server) => format!("memory:{}", server.name),
        }
    }

    /// A fresh connection.
    ///
    /// # Errors
    ///
    /// Why there is none, in words.
    pub(super) fn connect(&self) -> Result<Link, String> {
        match self {
            Endpoint::Url(server) => {
                http::connect(server).map_err(|error| format!("cannot get ready for {}: {error}", server.url))
            }
            Endpoint::Command(command) => {
                stdio::spawn(command).map_err(|error| format!("cannot start {:?}: {error}", command.program))
            }
            Endpoint::Memory(server) => Ok((server.connect)()),
        }
    }
}

impl From<HttpServer> for Endpoint {
    fn from(server: HttpServer) -> Self {
        Endpoint::Url(server)
    }
}

impl From<StdioCommand> for Endpoint {
    fn from(command: StdioCommand) -> Self {
        Endpoint::Command(command)
    }
}

/// Whether a path is made of words: keys in paths have digits and capitals, or are long.
fn is_plain(path: &str) -> bool {
    const LONGEST: usize = 24;
    let is_word = |part: &str| {
        let is_version = part.len() <= 3 && part.starts_with('v');
        part.len() <= LONGEST
            && part
                .chars()
                .all(|c| c.is_ascii_lowercase() || "-_.".contains(c) || (is_version && c.is_ascii_digit()))
    };
    path.split('/').all(is_word)
}

/// A short digest of what is not shown; nothing, if there is nothing.
fn mark(hidden: &str) -> String {
    if hidden.is_empty() {
        return String::new();
    }
    format!("#{}", hex(&Sha256::digest(hidden.as_bytes())[..8]))
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::http::ServerUrl;

    fn url(text: &str) -> String {
        Endpoint::Url(HttpServer::new(ServerUrl::parse(text).expect("a URL"))).identity()
    }

    /// Case 37.
    #[test]
    fn an_identity_is_stable_and_shows_no_secret() {
        assert_eq!(url("https://x.example/api/v2/mcp"), "https://x.example/api/v2/mcp");
        let keyed = url("https://x.example/mcp?key=sesame");
        assert!(keyed.starts_with("https://x.example/mcp#") && !keyed.contains("sesame"), "{keyed}");
        assert_eq!(keyed, url("https://x.example/mcp?key=sesame"));
        assert_ne!(keyed, url("https://x.example/mcp?key=other"));
        let in_path = url("https://x.example/s/sk-4fJ2x/mcp");
        assert!(in_path.starts_with("https://x.example/…#") && !in_path.contains("4fJ2x"), "{in_path}");
        let command = Endpoint::Command(StdioCommand::new("npx").args(["server", "--token", "sesame"]));
        assert!(command.identity().starts_with("command:npx#") && !command.identity().contains("sesame"));
        let with_env = StdioCommand { env: vec![("KEY".into(), "1".into())], ..StdioCommand::new("npx") };
        assert_eq!(Endpoint::Command(with_env).identity(), "command:npx");
    }
}
