use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How a [`PostgresStore`](super::PostgresStore) is reached and used.
///
/// A store holds up to `readers + lanes + 3` connections: one more writes what is about nodes, one tells the other nodes
/// of changes, and one hears of theirs. They must be sessions of the server: a pooler that hands out transactions
/// (PgBouncer in transaction mode) does not keep what is set and prepared in them.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database?…`.
    ///
    /// `sslmode` in it says how the connection is kept private: `disable` not at all; `prefer` (the default) encrypted
    /// if the server can, without asking who it is; `require`, `verify-ca` and `verify-full`, all three the same and stricter than
    /// elsewhere: encrypted, and the server must show a certificate for its host's name. Several hosts
    /// are tried in order, and one that only reads is passed over.
    pub url: String,
    /// Where the certificates are that vouch for the server, in PEM; `sslrootcert` in the URL says the same. By default
    /// those of the operating system.
    pub root_certificates: Option<PathBuf>,
    /// The schema that holds the tables; made if there is none. Its name is also the channel on which nodes tell each
    /// other of changes. A lower-case letter, then lower-case letters, digits and `_`, 63 in all.
    pub schema: String,
    /// How many questions can be answered at the same time.
    pub readers: usize,
    /// How many transactions can be under way at the same time. Writes to one task always go through the same lane.
    pub lanes: usize,
    /// How long the server works on one statement before it gives up. It also bounds what a frozen node or a cut
    /// network can do to others: half of it after its last word, its transaction is undone and its locks are free.
    pub statement_timeout: Duration,
    /// How long an attempt to connect may take.
    pub connect_timeout: Duration,
    /// How long an operation waits for a connection before it fails.
    pub patience: Duration,
}

impl PostgresOptions {
    /// The defaults for the database at `url`: schema `taskgate`, 8 readers, 4 lanes, 10 s for a statement, 5 s to connect,
    /// 10 s of patience.
    pub fn new(url: impl Into<String>) -> Self {
        PostgresOptions {
            url: url.into(),
            root_certificates: None,
            schema: "taskgate".to_owned(),
            readers: 8,
            lanes: 4,
            statement_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            patience: Duration::from_secs(10),
        }
    }

    /// Whether the schema's name holds nothing odd and is not the server's own.
    pub(super) fn is_schema_plain(&self) -> bool {
        let mut bytes = self.schema.bytes();
        bytes.next().is_some_and(|first| first.is_ascii_lowercase())
            && bytes.all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
            && self.schema.len() <= 63
            && !self.schema.starts_with("pg_")
            && self.schema != "information_schema"
    }
}

/// The URL may hold a password.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("readers", &self.readers)
            .field("lanes", &self.lanes)
            .field("statement_timeout", &self.statement_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_not_shown() {
        let shown = format!("{:?}", PostgresOptions::new("postgres://me:hunter2@db/x"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn schemas_have_plain_names() {
        let plain = |schema: &str| {
            PostgresOptions { schema: schema.to_owned(), ..PostgresOptions::new("") }.is_schema_plain()
        };
        assert!(plain("taskgate") && plain("t_1"));
        for odd in ["", "1t", "Tasks", "a\"b", "a b", "pg_x", "information_schema", "ä", &"x".repeat(64)] {
            assert!(!plain(odd), "{odd}");
        }
    }
}
