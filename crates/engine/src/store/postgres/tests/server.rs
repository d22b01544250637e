use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use parking_lot::Mutex;

/// A Postgres of our own. It goes when this value or the process does, however that ends.
pub struct Server {
    url: String,
    process: Mutex<(Child, ChildStdin, Lines<BufReader<ChildStdout>>)>,
}

impl Server {
    /// Starts one.
    pub fn start() -> Server {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proof/peers/postgres");
        let mut child = Command::new(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{script}: {error}"));
        let (orders, said) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut said = BufReader::new(said).lines();
        // What is missing it has said on standard error.
        let url = said.next().expect("no Postgres for the tests: see above").unwrap();
        Server { url, process: Mutex::new((child, orders, said)) }
    }

    /// The one that the tests of this process share.
    pub fn shared() -> &'static Server {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(Server::start)
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// `stop`, `kill`, `start` or `tls`; returns what is said when it is done.
    pub fn order(&self, order: &str) -> String {
        let (_, orders, said) = &mut *self.process.lock();
        writeln!(orders, "{order}").unwrap();
        said.next().expect("the server's script has ended").unwrap()
    }
}
