//! A server says who gives out tokens for it, and may say what it likes.

use taskgate_credentials::{OAuth, Secret};
use taskgate_reach::{Allowed, Reach};

use super::*;

const JSON: &str = "Content-Type: application/json\r\n";

/// Where a script is, without a path.
fn origin(script: &Script) -> String {
    script.url().trim_end_matches("/mcp?key=sesame").to_owned()
}

fn oauth() -> OAuth {
    OAuth::new("me", Secret::Text("geheim".to_owned()))
}

/// A server whose tokens are given out by this issuer.
fn server(script: &Script, issuer: Option<&str>) -> HttpServer {
    script.server().oauth_found(issuer.map(str::to_owned), oauth())
}

/// Begins to open a session in the background.
fn opening(server: &HttpServer) -> tokio::task::JoinHandle<Result<Session, OpenError>> {
    let link = connect(server).expect("connect");
    let options = OpenOptions { prefer: Version::V2025_11_25, ..OpenOptions::new("test", "1") };
    tokio::spawn(Session::open(link, options))
}

/// Refuses the first request, which brings no token, with this challenge.
async fn challenge(script: &Script, challenge: &str) {
    let asked = script.expect("initialize").await;
    assert!(!asked.headers.contains_key("authorization"), "{:?}", asked.headers);
    asked.respond("401 Unauthorized", challenge, "").await;
}

/// Answers a request for a document.
async fn document(script: &Script, path: &str, document: &Value) {
    let asked = script.next().await;
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("GET", path));
    assert!(!asked.headers.contains_key("authorization"));
    asked.respond("200 OK", JSON, &document.to_string()).await;
}

async fn missing(script: &Script, path: &str) {
    let asked = script.next().await;
    assert_eq!(asked.path, path);
    asked.status("404 Not Found").await;
}

/// Why no session could be opened, without any secret in it.
async fn refused(opening: tokio::task::JoinHandle<Result<Session, OpenError>>) -> String {
    let why = soon(opening).await.expect("no panic").expect_err("no token").to_string();
    assert!(!why.contains("geheim") && !why.contains("sesame"), "{why}");
    why
}

/// From a 401 to the metadata it names, to the issuer's, to its token endpoint; the token is for the resource and allows what was
/// demanded. The result is kept: a token that is refused later costs one request.
#[tokio::test]
async fn a_challenge_leads_to_a_token() {
    let (script, auth) = (Script::start().await, Script::start().await);
    let (at, issuer) = (origin(&script), format!("{}/tenant", origin(&auth)));
    let opening = opening(&server(&script, Some(&issuer)));
    challenge(
        &script,
        &format!("WWW-Authenticate: Bearer resource_metadata=\"{at}/meta?v=1\", scope=\"run read\"\r\n"),
    )
    .await;
    let resource = json!({"resource": format!("{at}/mcp"), "scopes_supported": ["all"],
        "authorization_servers": ["https://other.example", issuer]});
    document(&script, "/meta?v=1", &resource).await;
    missing(&auth, "/.well-known/oauth-authorization-server/tenant").await;
    missing(&auth, "/.well-known/openid-configuration/tenant").await;
    let metadata = json!({"issuer": issuer, "token_endpoint": format!("{}/token", origin(&auth))});
    document(&auth, "/tenant/.well-known/openid-configuration", &metadata).await;
    let form = |scope: &str| {
        let resource = format!("{at}/mcp").replace(':', "%3A").replace('/', "%2F");
        format!("grant_type=client_credentials&scope={scope}&resource={resource}")
    };
    for (token, scope) in [("t1", "run+read"), ("t2", "more")] {
        let asked = auth.next().await;
        assert_eq!((asked.path.as_str(), asked.body.as_str()), ("/token", Some(form(scope).as_str())));
        assert_eq!(asked.headers["authorization"], "Basic bWU6Z2VoZWlt");
        asked.respond("200 OK", JSON, &json!({"access_token": token}).to_string()).await;
        if token == "t1" {
            let again = script.expect("initialize").await;
            assert_eq!(again.headers["authorization"], "Bearer t1");
            let challenge = "WWW-Authenticate: Bearer error=\"invalid_token\", scope=\"more\"\r\n";
            // It may be refused once more, by a request that it is new to.
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
            again.answer_with("Mcp-Session-Id: s1\r\n", &result).await;
            script.next().await.respond("401 Unauthorized", challenge, "").await;
        }
    }
    let confirmed = script.expect("notifications/initialized").await;
    assert_eq!(confirmed.headers["authorization"], "Bearer t2");
    confirmed.status("202 Accepted").await;
    soon(opening).await.expect("no panic").expect("open");
    assert!(auth.is_silent().await);
}

/// Where nothing is named, the well-known places are looked at, first for the path and then for the whole; several requests
/// that are refused at once look once. An authorization server at the server's own origin needs no word.
#[tokio::test]
async fn well_known_places_are_looked_at_once() {
    let script = Script::start().await;
    let at = origin(&script);
    let tokens = TokenServer::found_by(ServerUrl::parse(&script.url()).expect("a URL"), None, oauth());
    assert_eq!(tokens.token(None).await, Ok(None), "nobody has asked for one");
    assert!(script.is_silent().await);
    tokens.challenged(&reqwest::header::HeaderMap::new());
    let asking = async { tokio::join!(tokens.token(None), tokens.token(None)) };
    let (given, ()) = tokio::join!(asking, async {
        missing(&script, "/.well-known/oauth-protected-resource/mcp").await;
        let resource = json!({"resource": at, "authorization_servers": [at], "scopes_supported": ["a", "b"]});
        document(&script, "/.well-known/oauth-protected-resource", &resource).await;
        // The root of a host is the same with a slash and without.
        let metadata = json!({"issuer": format!("{at}/"), "token_endpoint": format!("{at}/token")});
        document(&script, "/.well-known/oauth-authorization-server", &metadata).await;
        let asked = script.next().await;
        assert!(asked.body.as_str().is_some_and(|form| form.contains("&scope=a+b&")), "{}", asked.body);
        // It could be another one by now, so it is looked for again.
        asked.status("500 Internal Server Error").await;
        missing(&script, "/.well-known/oauth-protected-resource/mcp").await;
        document(&script, "/.well-known/oauth-protected-resource", &resource).await;
        document(&script, "/.well-known/oauth-authorization-server", &metadata).await;
        script.next().await.respond("200 OK", JSON, r#"{"access_token": "t"}"#).await;
    });
    assert!(given.0.as_ref().is_err_and(|why| why.contains("500")), "{given:?}");
    assert_eq!(given.1, Ok(Some("t".to_owned())));
}

/// What is configured goes before what is found.
#[tokio::test]
async fn what_is_configured_goes_first() {
    let script = Script::start().await;
    let configured = OAuth { scope: Some("mine".to_owned()), resource: Some(String::new()), ..oauth() };
    let asked = found(&script, configured).await;
    assert_eq!(asked.body, "grant_type=client_credentials&scope=mine");
    // What somebody's token allows was settled when it was given.
    let renewing = OAuth { refresh_token: Some(Secret::Text("r".to_owned())), ..oauth() };
    let asked = found(&script, renewing).await;
    let form = asked.body.as_str().expect("a form");
    assert!(
        form.starts_with("grant_type=refresh_token&refresh_token=r&resource=") && !form.contains("scope"),
        "{form}"
    );
}

/// The request for a token that comes of a challenge with a scope.
async fn found(script: &Script, oauth: OAuth) -> Exchange {
    let at = origin(script);
    let tokens = TokenServer::found_by(ServerUrl::parse(&script.url()).expect("a URL"), None, oauth);
    let challenge = format!("Bearer scope=\"theirs\", resource_metadata=\"{at}/m\"");
    let header = (reqwest::header::WWW_AUTHENTICATE, challenge.parse().expect("a header"));
    tokens.challenged(&reqwest::header::HeaderMap::from_iter([header]));
    let asking = async {
        document(script, "/m", &json!({"resource": at, "authorization_servers": [at]})).await;
        let metadata = json!({"issuer": at, "token_endpoint": format!("{at}/token")});
        document(script, "/.well-known/oauth-authorization-server", &metadata).await;
        script.next().await
    };
    tokio::select! {
        asked = asking => asked,
        given = tokens.token(None) => panic!("given without asking: {given:?}"),
    }
}

/// Hostile metadata of the server: it is about something else, leads elsewhere, or wants the credentials for somebody else.
#[tokio::test]
async fn a_server_cannot_lead_the_credentials_elsewhere() {
    let elsewhere = Script::start().await;
    let there = origin(&elsewhere);
    for (resource, issuers, says) in [
        ("https://bank.example/mcp", json!(["SELF"]), "another resource"),
        ("SELF/mcpx", json!(["SELF"]), "another resource"),
        ("SELF/mcp/deeper", json!(["SELF"]), "another resource"),
        ("none", json!(["SELF"]), "another resource"),
        ("SELF/mcp", json!([]), "no authorization server"),
        ("SELF/mcp", json!([there]), "write it as `issuer`"),
        ("SELF/mcp", json!(["http://169.254.169.254/latest"]), "write it as `issuer`"),
        ("SELF/mcp", json!(["\u{1b}[31m", 7]), "metadata of the server"),
    ] {
        let script = Script::start().await;
        let at = origin(&script);
        let here = |text: &str| text.replace("SELF", &at);
        let opening = opening(&server(&script, None));
        challenge(&script, &format!("WWW-Authenticate: Bearer resource_metadata=\"{at}/m\"\r\n")).await;
        let said = json!({"resource": here(resource), "authorization_servers": issuers});
        document(&script, "/m", &serde_json::from_str(&here(&said.to_string())).expect("JSON")).await;
        let why = refused(opening).await;
        assert!(why.contains(says), "{says}: {why}");
    }
    for (named, says) in [
        (format!("{there}/m"), "another server"),
        ("http://169.254.169.254/latest/meta-data".to_owned(), "not encrypted"),
        ("https://10.0.0.1/m".to_owned(), "another server"),
        ("file:///etc/passwd".to_owned(), "neither http"),
    ] {
        let script = Script::start().await;
        let opening = opening(&server(&script, None));
        challenge(&script, &format!("WWW-Authenticate: Bearer resource_metadata=\"{named}\"\r\n")).await;
        let why = refused(opening).await;
        assert!(why.contains(says), "{named}: {why}");
    }
    assert!(elsewhere.is_silent().await);
}

/// Documents that are none, never end, or are said to be elsewhere.
#[tokio::test]
async fn no_document_is_followed_or_read_for_ever() {
    let elsewhere = Script::start().await;
    for (status, headers, body, says) in [
        ("302 Found", format!("Location: {}/m\r\n", origin(&elsewhere)), String::new(), "302"),
        ("307 Temporary Redirect", "Location: http://10.0.0.1/m\r\n".to_owned(), String::new(), "307"),
        ("200 OK", String::new(), "<html>".to_owned(), "metadata of the server"),
        ("200 OK", String::new(), format!("\"{}\"", "x".repeat(300 << 10)), "too long"),
        ("500 Internal Server Error", String::new(), String::new(), "500"),
    ] {
        let script = Script::start().await;
        let opening = opening(&server(&script, None));
        let at = origin(&script);
        challenge(&script, &format!("WWW-Authenticate: Bearer resource_metadata=\"{at}/m\"\r\n")).await;
        let answered = script.next().await.respond(status, &headers, &body);
        // Whoever is told too much hangs up.
        let _ = tokio::time::timeout(Duration::from_secs(5), answered).await;
        let why = refused(opening).await;
        assert!(why.contains(says), "{says}: {why}");
    }
    assert!(elsewhere.is_silent().await);
    // A body without an end.
    let script = Script::start().await;
    let opening = opening(&server(&script, None));
    challenge(&script, "").await;
    let mut endless = script.next().await;
    endless.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    let feeding = tokio::spawn(async move {
        let piece = format!("1000\r\n{}\r\n", "y".repeat(0x1000));
        while endless.stream.write_all(piece.as_bytes()).await.is_ok() {}
    });
    let why = refused(opening).await;
    assert!(why.contains("too long"), "{why}");
    soon(feeding).await.expect("the connection is closed");
}

/// Hostile metadata of the authorization server: another issuer's, or a token endpoint where the secret could be read.
#[tokio::test]
async fn an_issuer_speaks_for_itself_alone() {
    let elsewhere = Script::start().await;
    let there = format!("{}/token", origin(&elsewhere));
    let (named, mapped) =
        (there.replace("127.0.0.1", "localhost"), there.replace("127.0.0.1", "[::ffff:127.0.0.1]"));
    for (issuer, endpoint, says) in [
        // At an address that only we can reach, however it is written.
        ("SELF", there.as_str(), "127.0.0.1 is this machine"),
        ("SELF", &named, "localhost is at"),
        ("SELF", &mapped.replace("http:", "https:"), "is this machine"),
        ("SELF", "https://169.254.169.254/latest/", "put it into `allow_private` of [network]"),
        ("SELF", "https://10.0.0.1/token", "is a private address"),
        ("SELF", "https://[fd00::1]/token", "is a private address"),
        ("https://honest.example", "SELF/token", "that of"),
        ("SELF/other", "SELF/token", "that of"),
        ("", "SELF/token", "that of"),
        ("SELF", "http://auth.example/token", "not encrypted"),
        ("SELF", "token", "is no URL"),
    ] {
        let (script, auth) = (Script::start().await, Script::start().await);
        let (at, it) = (origin(&script), origin(&auth));
        let opening = opening(&server(&script, Some(&it)));
        challenge(&script, &format!("WWW-Authenticate: Bearer resource_metadata=\"{at}/m\"\r\n")).await;
        document(&script, "/m", &json!({"resource": at, "authorization_servers": [it]})).await;
        let here = |text: &str| text.replace("SELF", &it);
        let said = json!({"issuer": here(issuer), "token_endpoint": here(endpoint)});
        document(&auth, "/.well-known/oauth-authorization-server", &said).await;
        let why = refused(opening).await;
        assert!(why.contains(says), "{says}: {why}");
        assert!(auth.is_silent().await);
    }
    assert!(elsewhere.is_silent().await);
    // The credentials are for one issuer, and the server wants another's tokens.
    let script = Script::start().await;
    let at = origin(&script);
    let opening = opening(&server(&script, Some("https://auth.example")));
    challenge(&script, &format!("WWW-Authenticate: Bearer resource_metadata=\"{at}/m\"\r\n")).await;
    document(&script, "/m", &json!({"resource": at, "authorization_servers": [at]})).await;
    let why = refused(opening).await;
    assert!(why.contains("not of the issuer https://auth.example"), "{why}");
}

/// A token endpoint inside is asked if the configuration allows it.
#[tokio::test]
async fn a_token_endpoint_inside_can_be_allowed() {
    for (allowed, host) in [("127.0.0.0/8", "127.0.0.1"), ("localhost", "localhost")] {
        let (script, elsewhere) = (Script::start().await, Script::start().await);
        let at = origin(&script);
        let tokens = TokenServer::found_by(ServerUrl::parse(&script.url()).expect("a URL"), None, oauth())
            .within(Reach::new(vec![Allowed::parse(allowed).expect("allowed")]));
        let server = HttpServer { auth: Auth::OAuth(Arc::new(tokens)), ..script.server() };
        let opening = opening(&server);
        challenge(&script, &format!("WWW-Authenticate: Bearer resource_metadata=\"{at}/m\"\r\n")).await;
        document(&script, "/m", &json!({"resource": at, "authorization_servers": [at]})).await;
        let endpoint = format!("{}/token", origin(&elsewhere).replace("127.0.0.1", host));
        let said = json!({"issuer": at, "token_endpoint": endpoint});
        document(&script, "/.well-known/oauth-authorization-server", &said).await;
        let asked = elsewhere.next().await;
        assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/token"));
        asked.respond("200 OK", JSON, r#"{"access_token": "t", "token_type": "Bearer"}"#).await;
        assert_eq!(script.next().await.headers["authorization"], "Bearer t");
        opening.abort();
    }
}
