//! How a server is named on the command line.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Options of every command that speaks to a server.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Server {
    /// A header for every request to a server that is a URL, such as `X-Key: value`. Can be given several times.
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<Header>,
    /// The variable that holds a bearer token for the server, so that the token is on no command line.
    #[arg(long, value_name = "VARIABLE")]
    pub bearer_env: Option<String>,
    /// The file that has the servers' names, instead of those of common hosts: .mcp.json, .vscode/mcp.json and others.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Send credentials over http:// to another machine, where others may read them on the way.
    #[arg(long)]
    pub plain_http: bool,
    /// The command that is the server, instead of its name.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// A header.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Header({})", self.name)
    }
}

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some((name, value)) if !name.trim().is_empty() => {
                Ok(Header { name: name.trim().to_owned(), value: value.trim().to_owned() })
            }
            _ => Err("write its name, a colon and its value".to_owned()),
        }
    }
}
