use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::{Client, Url, redirect, retry};
use taskgate_credentials::TokenRequest;

/// How long an issuer may take. A caller waits for it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest answer, in bytes.
const LONGEST: usize = 1 << 20;

/// A request to an issuer: a form that is posted, or a document that is got.
pub struct Ask {
    pub url: String,
    pub form: Option<TokenRequest>,
}

/// How issuers are asked: the body of an answer that is a success.
pub type Fetch = Arc<dyn Fn(Ask) -> BoxFuture<'static, Result<Vec<u8>, String>> + Send + Sync>;

/// Asks over HTTP. Redirects are not followed: whoever redirects us decides whom we ask.
pub fn over_http() -> Result<Fetch, String> {
    // A proxy stands between this machine and others, not between its programs.
    let (near, far) = (client(true)?, client(false)?);
    Ok(Arc::new(move |ask| {
        let (near, far) = (near.clone(), far.clone());
        Box::pin(async move {
            let url = Url::parse(&ask.url).map_err(|error| format!("{} is no URL: {error}", ask.url))?;
            let client = if is_loopback(&url) { near } else { far };
            let request = match ask.form {
                Some(TokenRequest { headers, body }) => client.post(url).headers(headers).body(body),
                None => client
                    .get(url)
                    .headers(HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))])),
            };
            let mut response = request.send().await.map_err(|error| root_of(&error))?;
            if !response.status().is_success() {
                return Err(format!("status {}", response.status().as_u16()));
            }
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|error| root_of(&error))? {
                if body.len() + chunk.len() > LONGEST {
                    return Err(format!("its answer is longer than {LONGEST} bytes"));
                }
                body.extend_from_slice(&chunk);
            }
            Ok(body)
        })
    }))
}

/// Whether an issuer may be asked there: nobody on the way can change its keys, or nobody minds.
///
/// # Errors
///
/// Why not, as the end of a sentence that begins with the address.
pub fn may_ask(text: &str, plain_http: bool) -> Result<(), String> {
    let url = Url::parse(text).map_err(|error| format!("is no URL: {error}"))?;
    match url.scheme() {
        "https" => Ok(()),
        "http" if plain_http || is_loopback(&url) => Ok(()),
        "http" => Err("would be asked over an unencrypted connection".to_owned()),
        _ => Err("is neither http:// nor https://".to_owned()),
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

fn client(is_near: bool) -> Result<Client, String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = Client::builder()
        .user_agent(concat!("taskgate/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .timeout(TIMEOUT)
        .tls_backend_preconfigured(tls);
    let builder = if is_near { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| root_of(&error))
}

/// The innermost reason, which is the one that people understand.
fn root_of(error: &dyn std::error::Error) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.to_string()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Asks a server that answers with these bytes.
    async fn asked(answer: Vec<u8>) -> Result<Vec<u8>, String> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let url = format!("http://{}/keys", listener.local_addr().expect("bound"));
        tokio::spawn(async move {
            // Whoever is sent elsewhere comes back here, and would be served.
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let read = stream.read(&mut request).await.unwrap_or_default();
                let is_first = request[..read].starts_with(b"GET /keys ");
                let again = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nelse";
                let _ = stream.write_all(if is_first { &answer } else { again }).await;
            }
        });
        over_http().expect("a client")(Ask { url, form: None }).await
    }

    #[tokio::test]
    async fn an_issuer_is_read_as_far_as_it_is_sensible() {
        let answer = |head: &str, body: &[u8]| {
            [
                format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())
                    .as_bytes(),
                body,
            ]
            .concat()
        };
        assert_eq!(asked(answer("200 OK", b"{}")).await, Ok(b"{}".to_vec()));
        assert_eq!(asked(answer("302 Found\r\nLocation: /else", b"")).await, Err("status 302".to_owned()));
        assert_eq!(asked(answer("500 Oh", b"{}")).await, Err("status 500".to_owned()));
        assert_eq!(asked(answer("200 OK", &vec![b' '; LONGEST])).await.map(|body| body.len()), Ok(LONGEST));
        let long = asked(answer("200 OK", &vec![b' '; LONGEST + 1])).await;
        assert_eq!(long, Err("its answer is longer than 1048576 bytes".to_owned()));
    }

    #[test]
    fn issuers_are_asked_in_private() {
        for (url, plain_http, good) in [
            ("https://a.example/", false, true),
            ("http://127.0.0.1:1/", false, true),
            ("http://[::1]/", false, true),
            ("http://localhost/", false, true),
            ("http://a.example/", true, true),
            ("http://a.example/", false, false),
            ("http://127.0.0.1.evil.example/", false, false),
            ("file:///etc/passwd", true, false),
            ("a.example", true, false),
        ] {
            assert_eq!(may_ask(url, plain_http).is_ok(), good, "{url}");
        }
    }
}
