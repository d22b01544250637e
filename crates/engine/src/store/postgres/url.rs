use std::path::PathBuf;
use std::str::FromStr;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::StoreError;

/// A URL, read.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) config: Config,
    /// `sslrootcert`.
    pub(super) root_certificates: Option<PathBuf>,
}

/// Reads the URL. What it says wrong is told without the URL, which may hold a password.
pub(super) fn read(url: &str) -> Result<Target, StoreError> {
    let wrong = |why: &str| StoreError::Failed(format!("the URL of the database cannot be used: {why}"));
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(wrong("it must begin with postgres://"));
    }
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let mut root_certificates = None;
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslrootcert", file)) => root_certificates = Some(PathBuf::from(file)),
            // The client below knows these by one name; see `PostgresOptions::url`.
            Some(("sslmode", "verify-ca" | "verify-full")) => rest.push("sslmode=require"),
            _ => rest.push(pair),
        }
    }
    let url = if rest.is_empty() { place.to_owned() } else { format!("{place}?{}", rest.join("&")) };
    let config = Config::from_str(&url).map_err(|error| wrong(&super::fault::say(&error)))?;
    if config.get_hosts().is_empty() {
        return Err(wrong("it names no host"));
    }
    Ok(Target { config, root_certificates })
}

/// Where that is, for messages: `HOST:PORT/DATABASE`, without user and password.
pub(super) fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(number, host)| {
        let port = ports.get(number).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]:{port}"),
            Host::Tcp(name) => format!("{name}:{port}"),
            Host::Unix(folder) => format!("{}:{port}", folder.display()),
        }
    });
    let hosts: Vec<String> = hosts.collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("{}/{database}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::SslMode;

    use super::*;

    #[test]
    fn a_url_says_where_and_how() {
        let target =
            read("postgres://me:hunter2@a:1,b:2/tasks?sslmode=verify-full&sslrootcert=/etc/ca.pem").unwrap();
        assert_eq!(place(&target.config), "a:1,b:2/tasks");
        assert_eq!(target.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(target.root_certificates, Some(PathBuf::from("/etc/ca.pem")));
        let target = read("postgresql://me@[::1]").unwrap();
        assert_eq!(place(&target.config), "[::1]:5432/me");
        assert_eq!(target.config.get_ssl_mode(), SslMode::Prefer);
        assert_eq!(place(&read("postgres://me@%2Frun%2Fpg/x").unwrap().config), "/run/pg:5432/x");
    }

    #[test]
    fn what_is_wrong_is_told_without_the_password() {
        for url in [
            "mysql://me:hunter2@a/b",
            "postgres://me:hunter2@a:port/b",
            "postgres://me:hunter2@a/b?hunter2=1",
            "postgres:///b?password=hunter3%zz",
            "postgres://",
        ] {
            let error = read(url).unwrap_err().to_string();
            assert!(error.contains("the URL of the database"), "{error}");
            assert!(!error.contains("me:hunter2"), "{error}");
        }
    }
}
