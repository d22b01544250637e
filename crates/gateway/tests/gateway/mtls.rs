//! Certificates of clients: who gets a connection at all, and who is the caller.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use serde_json::{Value, json};
use taskgate_gateway::access::{
    AccessConfig, Certificates, Resource, Rights, StaticToken, SubjectKind, TokenHash,
};
use taskgate_gateway::{Settings, TlsFiles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::{Board, Era, Server, modern, serve_with, settings, soon};

/// An authority that gives out certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate with its key.
struct Shown(CertificateDer<'static>, KeyPair);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("signed").pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Gives one out under this name, with these alternative names.
    fn give(&self, name: &str, others: &[SanType], change: impl FnOnce(&mut CertificateParams)) -> Shown {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = others.to_vec();
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        Shown(params.signed_by(&key, &self.issuer).expect("signed").der().clone(), key)
    }
}

fn uri(name: &str) -> SanType {
    SanType::URI(name.try_into().expect("a URI"))
}

/// The server's certificate and key, and what its clients must show.
fn files(folder: &Path, clients: &Authority) -> (TlsFiles, PathBuf) {
    let servers = Authority::new();
    let Shown(certificate, key) =
        servers.give("server", &[SanType::IpAddress([127, 0, 0, 1].into())], |_| {});
    let pem = |name: &str, text: String| {
        let file = folder.join(name);
        std::fs::write(&file, text).expect("written");
        file
    };
    let body = |certificate: &CertificateDer<'_>| {
        use base64::Engine;
        let text = base64::engine::general_purpose::STANDARD.encode(certificate);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    };
    let files = TlsFiles {
        certificate: pem("cert.pem", body(&certificate)),
        key: pem("key.pem", key.serialize_pem()),
        client_ca: Some(pem("clients.pem", clients.pem.clone())),
    };
    (files, pem("servers.pem", servers.pem))
}

fn auth(subject: SubjectKind, tokens: &[&str]) -> AccessConfig {
    let tokens = tokens.iter().map(|token| StaticToken {
        name: (*token).to_owned(),
        hash: TokenHash::of(token),
        scopes: vec!["mcp".to_owned()],
    });
    AccessConfig {
        resource: Resource::parse("https://gate.example/mcp").expect("an address"),
        issuers: Vec::new(),
        tokens: tokens.collect(),
        certificates: Some(Certificates { subject, scopes: vec!["mcp".to_owned()] }),
        proxy: None,
        rights: Rights { required: vec!["mcp".to_owned()], ..Rights::default() },
        reach: Default::default(),
    }
}

/// Makes a request over a connection of its own; `None` if there is no connection.
async fn ask(
    server: &Server,
    trusted: &Path,
    shown: Option<&Shown>,
    token: Option<&str>,
    method: &str,
    params: Value,
) -> Option<(u16, Value)> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).expect("a certificate")).expect("usable");
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
    let config = match shown {
        None => config.with_no_client_auth(),
        Some(Shown(certificate, key)) => {
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
            config.with_client_auth_cert(vec![certificate.clone()], key).expect("usable")
        }
    };
    let stream = TcpStream::connect(server.addr).await.expect("connected");
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    let (headers, body) = modern::Modern::new(server).request(method, params);
    let body = body.to_string();
    let mut head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers.iter().filter(|(name, _)| name != "Accept") {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(token) = token {
        head.push_str(&format!("Authorization: Bearer {token}\r\n"));
    }
    head.push_str("Accept: application/json\r\n\r\n");
    // In TLS 1.3 a client hears that its certificate was refused when it first reads.
    stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).await.ok()?;
    let mut answer = Vec::new();
    soon("the answer", stream.read_to_end(&mut answer)).await.ok()?;
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    Some((status, serde_json::from_str(body).unwrap_or_default()))
}

/// Who shows no certificate, one of another authority or one whose time is over gets no connection.
#[tokio::test(flavor = "multi_thread")]
async fn only_certificates_of_the_authority_get_a_connection() {
    let (folder, clients) = (tempfile::tempdir().expect("a folder"), Authority::new());
    let (tls, trusted) = files(folder.path(), &clients);
    let old = |params: &mut CertificateParams| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    };
    let foreign = Authority::new().give("ann", &[], |_| {});
    let (expired, good) = (clients.give("ann", &[], old), clients.give("ann", &[], |_| {}));
    for auth in [None, Some(auth(SubjectKind::Dn, &[]))] {
        let settings = Settings { tls: Some(tls.clone()), auth, ..settings() };
        let server = serve_with(&Board::new(Era::Both), settings).await;
        for shown in [None, Some(&foreign), Some(&expired)] {
            assert_eq!(ask(&server, &trusted, shown, None, "tools/list", json!({})).await, None);
        }
        let answered = ask(&server, &trusted, Some(&good), None, "tools/list", json!({})).await;
        let (status, answer) = answered.expect("a connection");
        assert_eq!((status, answer["result"].is_object()), (200, true), "{answer}");
    }
}

/// The name in a certificate is the caller: another name sees none of its tasks, and the same name in another certificate all.
#[tokio::test(flavor = "multi_thread")]
async fn the_name_in_a_certificate_is_whose_tasks_are_seen() {
    let (folder, clients) = (tempfile::tempdir().expect("a folder"), Authority::new());
    let (tls, trusted) = files(folder.path(), &clients);
    let give = |name: &str| {
        clients.give(
            "workload",
            &[uri(name), SanType::DnsName("w.example".try_into().expect("a name"))],
            |_| {},
        )
    };
    let (ann, again, bob) = (give("spiffe://x/ann"), give("spiffe://x/ann"), give("spiffe://x/bob"));
    let settings = Settings { tls: Some(tls.clone()), auth: Some(auth(SubjectKind::Uri, &[])), ..settings() };
    let server = serve_with(&Board::new(Era::Both), settings).await;
    let make = json!({"name": "always", "arguments": {"steps": [{"wait": "for ever"}]}});
    let (_, made) = ask(&server, &trusted, Some(&ann), None, "tools/call", make).await.expect("an answer");
    let id = json!({"taskId": made["result"]["taskId"]});
    for (shown, sees) in [(&ann, true), (&again, true), (&bob, false)] {
        let (_, answer) =
            ask(&server, &trusted, Some(shown), None, "tasks/get", id.clone()).await.expect("an answer");
        assert_eq!(answer["result"].is_object(), sees, "{answer}");
    }
    // Without exactly one name of the kind nobody is the caller.
    for names in [vec![], vec![uri("spiffe://x/ann"), uri("spiffe://x/bob")]] {
        let shown = clients.give("workload", &names, |_| {});
        let (status, answer) =
            ask(&server, &trusted, Some(&shown), None, "tasks/get", id.clone()).await.expect("an answer");
        assert_eq!(status, 401, "{answer}");
        assert!(
            answer["error"]["message"].as_str().is_some_and(|why| why.contains("client certificate")),
            "{answer}"
        );
    }
}

/// Beside tokens, a certificate is one way of two, and a token that is shown goes before it.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_goes_before_a_certificate() {
    let (folder, clients) = (tempfile::tempdir().expect("a folder"), Authority::new());
    let (tls, trusted) = files(folder.path(), &clients);
    let shown = clients.give("ann", &[], |_| {});
    let settings = Settings { tls: Some(tls), auth: Some(auth(SubjectKind::Dn, &["sesame"])), ..settings() };
    let server = serve_with(&Board::new(Era::Both), settings).await;
    let make = json!({"name": "always", "arguments": {"steps": [{"wait": "for ever"}]}});
    let (_, made) = ask(&server, &trusted, Some(&shown), None, "tools/call", make).await.expect("an answer");
    let id = json!({"taskId": made["result"]["taskId"]});
    for (shown, token, status, sees) in [
        (Some(&shown), None, 200, true),
        (Some(&shown), Some("sesame"), 200, false),
        (None, Some("sesame"), 200, false),
        (Some(&shown), Some("other"), 401, false),
        (None, None, 401, false),
    ] {
        let asked = ask(&server, &trusted, shown, token, "tasks/get", id.clone()).await;
        let (said, answer) = asked.expect("a connection");
        assert_eq!((said, answer["result"].is_object()), (status, sees), "{token:?} {answer}");
    }
    let foreign = Authority::new().give("ann", &[], |_| {});
    assert_eq!(ask(&server, &trusted, Some(&foreign), Some("sesame"), "tasks/get", id).await, None);
}
