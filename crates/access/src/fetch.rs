use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::{Client, Url, redirect, retry};
use taskgate_credentials::TokenRequest;
use taskgate_reach::Reach;

/// How long an issuer may take. A caller waits for it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest answer, in bytes.
const LONGEST: usize = 1 << 20;

/// A request to an issuer: a form that is posted, or a document that is got.
pub struct Ask {
    pub url: String,
    /// Whether its place is one that the configuration names, and not only the issuer.
    pub is_written: bool,
    pub form: Option<TokenRequest>,
}

/// How issuers are asked: the body of an answer that is a success.
pub type Fetch = Arc<dyn Fn(Ask) -> BoxFuture<'static, Result<Vec<u8>, String>> + Send + Sync>;

/// Asks over HTTP. Redirects are not followed: whoever redirects us decides whom we ask. What only an issuer names is asked within reach.
pub fn over_http(reach: &Reach) -> Result<Fetch, String> {
    let (written, named) = (Pair::new(None)?, Pair::new(Some(reach))?);
    let reach = reach.clone();
    Ok(Arc::new(move |ask| {
        let clients = if ask.is_written { &written } else { &named };
        let (clients, reach) = (clients.clone(), reach.clone());
        Box::pin(async move {
            let url = Url::parse(&ask.url).map_err(|error| format!("{} is no URL: {error}", ask.url))?;
            if !ask.is_written {
                reach.check_url(&url, &[]).map_err(|denied| denied.to_string())?;
            }
            let client = if is_loopback(&url) { clients.near } else { clients.far };
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

/// A proxy stands between this machine and others, not between its programs.
#[derive(Clone)]
struct Pair {
    near: Client,
    far: Client,
}

impl Pair {
    /// Clients that keep within reach, if they must.
    fn new(reach: Option<&Reach>) -> Result<Pair, String> {
        Ok(Pair { near: client(true, reach)?, far: client(false, reach)? })
    }
}

fn client(is_near: bool, reach: Option<&Reach>) -> Result<Client, String> {
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
    let builder = match reach {
        Some(reach) => reach.guard(builder),
        None => builder,
    };
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

    use taskgate_reach::Allowed;

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
        over_http(&Reach::default()).expect("a client")(Ask { url, is_written: true, form: None }).await
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

    /// What only an issuer names is not asked where only we can reach it, unless that is allowed.
    #[tokio::test]
    async fn an_issuer_leads_nowhere_inside() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let ask = async |reach: &Reach, url: &str| {
            let ask = Ask { url: url.to_owned(), is_written: false, form: None };
            over_http(reach).expect("a client")(ask).await
        };
        for url in [
            format!("http://127.0.0.1:{port}/keys"),
            format!("http://localhost:{port}/keys"),
            format!("http://[::ffff:7f00:1]:{port}/keys"),
            "https://169.254.169.254/keys".to_owned(),
            "https://[64:ff9b::a00:1]/keys".to_owned(),
        ] {
            let refused = ask(&Reach::default(), &url).await.expect_err("refused");
            assert!(refused.contains("put it into `allow_private` of [network]"), "{url}: {refused}");
        }
        let is_silent = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
        assert!(is_silent.is_err(), "nobody has connected");
        let allowed = Reach::new(vec![Allowed::parse("127.0.0.1").expect("an address")]);
        let serve = async {
            let (mut stream, _) = listener.accept().await.expect("somebody");
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await;
        };
        let url = format!("http://127.0.0.1:{port}/keys");
        let (asked, ()) = tokio::join!(ask(&allowed, &url), serve);
        assert_eq!(asked, Ok(b"{}".to_vec()));
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
