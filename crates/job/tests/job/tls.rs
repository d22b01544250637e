//! Over TLS: a certificate is believed if somebody trusts whoever has signed it, and no secret leaves before.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use taskgate_job::{Failure, Http, JobApi};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use crate::{call, declaration};

/// A certificate for this address that has signed itself, and its key.
fn certificate(folder: &Path) {
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=forge"]);
    command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    command.args(["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().expect("openssl is there").success());
}

async fn serve(folder: &Path) -> String {
    let certificates = CertificateDer::pem_file_iter(folder.join("cert.pem")).expect("a file");
    let certificates = certificates.collect::<Result<Vec<_>, _>>().expect("certificates");
    let key = PrivateKeyDer::from_pem_file(folder.join("key.pem")).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .expect("a certificate");
    let (acceptor, listener) = (
        TlsAcceptor::from(Arc::new(config)),
        tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a socket"),
    );
    let base = format!("https://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let _ = stream.read(&mut [0; 4096]).await;
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 11\r\nconnection: close\r\n\r\n{\"id\": \"7\"}";
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    base
}

#[tokio::test]
async fn a_certificate_is_believed_if_somebody_trusts_it() {
    let folder = tempfile::tempdir().expect("a folder");
    certificate(folder.path());
    let base = serve(folder.path()).await;
    let trusting = Http::new(Some(&folder.path().join("cert.pem"))).expect("connections");
    let started = JobApi::new(declaration(&base), trusting).start(&call(json!({}))).await.expect("started");
    assert_eq!(started.job["id"], "7");
    let strict = JobApi::new(declaration(&base), Http::new(None).expect("connections"));
    let failure = strict.start(&call(json!({}))).await.expect_err("not trusted");
    assert!(
        matches!(failure, Failure::Unsent { .. }) && failure.to_string().contains("certificate"),
        "{failure}"
    );
    let missing = Http::new(Some(&folder.path().join("none.pem"))).expect_err("no such file");
    assert!(missing.contains("none.pem"), "{missing}");
}
