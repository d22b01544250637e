//! Connections are few, and come to the point.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use taskgate_gateway::{BuildError, ConnectionSettings, Settings, TlsFiles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::direct::gateway;
use crate::harness::http::{read_head, send_on};
use crate::harness::{Board, Era, Server, builder, eventually, settings, soon};
use crate::limits::numbers;

async fn server(connections: ConnectionSettings) -> (Board, Server) {
    let board = Board::new(Era::Session);
    let served = gateway(&board, Settings { connections, ..settings() }).await;
    (board, Server::start(served).await)
}

const PING: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}"#;

/// One that has no place is told so, by name and number, whether it has said something or not; a place that is free again is taken.
#[tokio::test]
async fn there_is_a_most() {
    let (_board, server) = server(ConnectionSettings { max: 2, ..ConnectionSettings::default() }).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.addr).await.expect("connected");
        stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n").await.expect("sent");
        held.push(stream);
    }
    // The connection is taken in order, so the two are in.
    let refused = read_head(TcpStream::connect(server.addr).await.expect("connected")).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(refused.text().await.contains("connections.max (2)"));
    let asking = TcpStream::connect(server.addr).await.expect("connected");
    assert_eq!(send_on(asking, "POST", &[], PING).await.status, 503);
    drop(held.pop());
    let taken = soon("a free place", async {
        loop {
            let stream = TcpStream::connect(server.addr).await.expect("connected");
            let answer = send_on(stream, "POST", &[], PING).await;
            if answer.status != 503 {
                return answer;
            }
        }
    });
    assert_eq!(taken.await.status, 400);
}

/// Whoever says nothing, or too little, is not waited for; bytes now and then make no difference (slow loris).
#[tokio::test]
async fn a_head_that_does_not_come_is_not_waited_for() {
    let limit = Duration::from_millis(300);
    let (_board, server) =
        server(ConnectionSettings { head_timeout: limit, ..ConnectionSettings::default() }).await;
    let since = Instant::now();
    let mut silent = TcpStream::connect(server.addr).await.expect("connected");
    let mut slow = TcpStream::connect(server.addr).await.expect("connected");
    slow.write_all(b"POST /mcp HTTP/1.1\r\nx-slow: ").await.expect("sent");
    let dripping = async {
        let (mut reading, mut writing) = slow.split();
        let drip = async {
            loop {
                tokio::time::sleep(limit / 10).await;
                if writing.write_all(b"a").await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let mut rest = Vec::new();
        tokio::select! {
            () = drip => {}
            // Reset or closed, as the bytes happen to cross.
            _ = reading.read_to_end(&mut rest) => {}
        }
    };
    soon("the end of the slow one", dripping).await;
    let mut rest = Vec::new();
    let _ = soon("the end of the silent one", silent.read_to_end(&mut rest)).await;
    assert!(since.elapsed() >= limit);
    // Others are served.
    let stream = TcpStream::connect(server.addr).await.expect("connected");
    assert_eq!(send_on(stream, "POST", &[], PING).await.status, 400);
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let limit = Duration::from_millis(200);
    let (_board, server) =
        server(ConnectionSettings { body_timeout: limit, ..ConnectionSettings::default() }).await;
    let mut stream = TcpStream::connect(server.addr).await.expect("connected");
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.expect("sent");
    let refused = read_head(stream).await;
    assert_eq!((refused.status, refused.header("connection")), (408, Some("close")));
    assert!(refused.text().await.contains("connections.body_timeout (200ms)"));
}

/// Whoever watches sees how many connections are open, also those that say nothing.
#[tokio::test]
async fn open_connections_are_shown() {
    let (_board, server) = server(ConnectionSettings::default()).await;
    let shown = async |count: usize| {
        let line = format!("taskgate_connections {count}");
        eventually(&line, || async {
            numbers(&server.gateway).await.lines().any(|is| is == line).then_some(())
        })
        .await;
    };
    shown(0).await;
    let open = [TcpStream::connect(server.addr).await, TcpStream::connect(server.addr).await];
    shown(2).await;
    drop(open);
    shown(0).await;
}

#[tokio::test]
async fn a_head_has_a_length() {
    let (_board, server) =
        server(ConnectionSettings { max_head: 8192, ..ConnectionSettings::default() }).await;
    for (long, status) in [(4000, 400), (9000, 431)] {
        let stream = TcpStream::connect(server.addr).await.expect("connected");
        let value = "a".repeat(long);
        let answer = send_on(stream, "POST", &[("X-Long", &value)], PING).await;
        assert_eq!(answer.status, status);
    }
}

/// A certificate for this address that has signed itself, and its key.
fn certificate(folder: &Path, name: &str) -> TlsFiles {
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let mut command = Command::new("openssl");
    command
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj"])
        .arg(format!("/CN={name}"));
    command.args(["-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=IP:127.0.0.1"]);
    command.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().expect("openssl is there").success());
    TlsFiles { certificate, key, client_ca: None }
}

async fn encrypted(server: &Server, trusted: &Path) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).expect("a certificate")).expect("usable");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.addr).await?;
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

async fn is_served(mut stream: TlsStream<TcpStream>) -> bool {
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        PING.len()
    );
    stream.write_all(&[head.as_bytes(), PING].concat()).await.expect("sent");
    let mut answer = String::new();
    let _ = soon("the answer", stream.read_to_string(&mut answer)).await;
    answer.starts_with("HTTP/1.1 400 ") && answer.contains("\"jsonrpc\"")
}

/// Encrypted connections are served, others are not and harm nothing, and a renewed certificate is used without a restart.
#[tokio::test]
async fn connections_are_encrypted() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = certificate(folder.path(), "first");
    let first = folder.path().join("first.pem");
    std::fs::copy(&files.certificate, &first).expect("copied");
    let board = Board::new(Era::Session);
    let served = gateway(&board, Settings { tls: Some(files.clone()), ..settings() }).await;
    let server = Server::start(served).await;
    assert!(is_served(encrypted(&server, &first).await.expect("trusted")).await);
    let mut plain = TcpStream::connect(server.addr).await.expect("connected");
    plain.write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
    let mut said = Vec::new();
    let _ = soon("the end", plain.read_to_end(&mut said)).await;
    assert!(!said.starts_with(b"HTTP"), "{said:?}");

    certificate(folder.path(), "second");
    server.gateway.renew_certificate();
    assert!(encrypted(&server, &first).await.is_err());
    assert!(is_served(encrypted(&server, &files.certificate).await.expect("trusted")).await);
    // What cannot be used is not used.
    std::fs::write(&files.key, "nothing").expect("written");
    server.gateway.renew_certificate();
    assert!(is_served(encrypted(&server, &files.certificate).await.expect("trusted")).await);
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_an_error_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = certificate(folder.path(), "good");
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").expect("written");
    let foreign = tempfile::tempdir().expect("a folder");
    let foreign = certificate(foreign.path(), "foreign").key;
    let missing = folder.path().join("missing.pem");
    for (files, why) in [
        (TlsFiles { certificate: missing.clone(), ..good.clone() }, "missing.pem"),
        (TlsFiles { certificate: empty.clone(), ..good.clone() }, "no certificate"),
        (TlsFiles { key: empty.clone(), ..good.clone() }, "empty.pem"),
        (TlsFiles { key: foreign, ..good.clone() }, "certificate and the key"),
    ] {
        let board = Board::new(Era::Session);
        let settings = Settings { tls: Some(files), ..settings() };
        match builder(&board).settings(settings).build().await.map(drop) {
            Err(error @ BuildError::Tls(_)) => assert!(error.to_string().contains(why), "{error}"),
            other => panic!("{why}: {other:?}"),
        }
    }
}
