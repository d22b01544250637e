use super::*;
use taskgate_credentials::{OAuth, Secret};

fn token_url(script: &Script) -> ServerUrl {
    ServerUrl::parse(&script.url().replace("/mcp?key=sesame", "/token")).expect("a URL")
}

fn oauth() -> OAuth {
    OAuth {
        scope: Some("a b".to_owned()),
        resource: Some("https://mcp.example/".to_owned()),
        ..OAuth::new("me:&", Secret::Text("se/same".to_owned()))
    }
}

async fn grant(script: &Script, form: &str, token: Value) {
    let asked = script.next().await;
    assert_eq!((asked.path.as_str(), asked.body.as_str()), ("/token", Some(form)));
    asked.respond("200 OK", "Content-Type: application/json\r\n", &token.to_string()).await;
}

#[tokio::test]
async fn headers_and_a_bearer_from_a_file_go_with_every_request() {
    let script = Script::start().await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("token");
    std::fs::write(&file, "first\n").expect("write");
    let key = (HeaderName::from_static("x-key"), Secret::Text("k1".to_owned()));
    let server =
        HttpServer { headers: vec![key], auth: Auth::Bearer(Secret::File(file.clone())), ..script.server() };
    let session = script.legacy(&server).await;
    let calling = call(&session, LEGACY, "t");
    let asked = script.expect("tools/call").await;
    assert_eq!(
        (asked.headers["authorization"].as_str(), asked.headers["x-key"].as_str()),
        ("Bearer first", "k1")
    );
    // It was renewed in the meantime: the call is made again with the new one, since nothing was done.
    std::fs::write(&file, "second").expect("write");
    asked.status("401 Unauthorized").await;
    let again = script.expect("tools/call").await;
    assert_eq!(again.headers["authorization"], "Bearer second");
    again.status("401 Unauthorized").await;
    let refused = failure(calling).await;
    assert_eq!(refused.kind, FailureKind::Refused);
    assert!(!format!("{refused} {server:?}").contains("second") && !format!("{server:?}").contains("k1"));
    std::fs::remove_file(&file).expect("remove");
    let failed = failure(call(&session, LEGACY, "t")).await;
    assert!(failed.kind == FailureKind::Refused && failed.to_string().contains("cannot be read"), "{failed}");
}

/// A task may take longer than any token lives, and a token may be taken back before its end.
#[tokio::test]
async fn a_token_is_fetched_kept_and_renewed() {
    let script = Script::start().await;
    let server = script.server().oauth(token_url(&script), oauth());
    let form = "grant_type=client_credentials&scope=a+b&resource=https%3A%2F%2Fmcp.example%2F";
    let link = connect(&server).expect("connect");
    let options = OpenOptions { prefer: Version::V2025_11_25, ..OpenOptions::new("test", "1") };
    let (session, ()) = tokio::join!(Session::open(link, options), async {
        let asked = script.next().await;
        assert_eq!(asked.headers["authorization"], "Basic bWUlM0ElMjY6c2UlMkZzYW1l", "me%3A%26:se%2Fsame");
        assert_eq!(asked.body, form);
        let token = json!({"access_token": "t1", "token_type": "bearer", "expires_in": "3600"});
        asked.respond("200 OK", "Content-Type: application/json\r\n", &token.to_string()).await;
        script.initialize("s1").await;
        script.next().await.status("405 Method Not Allowed").await;
    });
    let session = session.expect("open");
    // Several calls that are refused at once share one answer of the token server.
    let calls = [call(&session, LEGACY, "a"), call(&session, LEGACY, "b")];
    let refused = [script.expect("tools/call").await, script.expect("tools/call").await];
    for asked in refused {
        assert_eq!(asked.headers["authorization"], "Bearer t1");
        asked.status("401 Unauthorized").await;
    }
    grant(&script, form, json!({"access_token": "t2"})).await;
    for _ in &calls {
        let again = script.expect("tools/call").await;
        assert_eq!(again.headers["authorization"], "Bearer t2");
        again.answer(&json!({})).await;
    }
    for call in calls {
        outcome(call).await.expect("answered");
    }
}

#[tokio::test]
async fn a_token_at_its_end_is_not_used_any_more() {
    let script = Script::start().await;
    let tokens = TokenServer::new(token_url(&script), oauth());
    let form = "grant_type=client_credentials&scope=a+b&resource=https%3A%2F%2Fmcp.example%2F";
    for token in ["t1", "t2"] {
        let granted = json!({"access_token": token, "expires_in": 0});
        let (given, ()) = tokio::join!(tokens.token(None), grant(&script, form, granted));
        assert_eq!(given, Ok(Some(token.to_owned())));
    }
}

#[tokio::test]
async fn a_refresh_token_that_is_renewed_is_kept_for_the_next_process() {
    let script = Script::start().await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("refresh");
    std::fs::write(&file, "r1").expect("write");
    let oauth = OAuth {
        client_secret: None,
        refresh_token: Some(Secret::File(file.clone())),
        scope: None,
        resource: None,
        ..oauth()
    };
    let tokens = TokenServer::new(token_url(&script), oauth);
    let (token, ()) = tokio::join!(tokens.token(None), async {
        let form = "grant_type=refresh_token&refresh_token=r1&client_id=me%3A%26";
        grant(&script, form, json!({"access_token": "t1", "refresh_token": "r2"})).await;
    });
    assert_eq!(token, Ok(Some("t1".to_owned())));
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "r2");
    assert_eq!(tokens.token(None).await, Ok(Some("t1".to_owned())), "it is good until it is refused");
    let (token, ()) = tokio::join!(tokens.token(Some("t1")), async {
        let asked = script.next().await;
        assert!(asked.body.as_str().expect("a form").contains("refresh_token=r2"));
        let refusal = json!({"error": "invalid_grant", "error_description": "revoked"});
        asked.respond("400 Bad Request", "", &refusal.to_string()).await;
    });
    let why = token.expect_err("refused");
    assert!(why.contains("invalid_grant (revoked)") && !why.contains("r2"), "{why}");
}

#[test]
fn urls_are_read_with_care_and_shown_without_what_may_be_a_key() {
    for (url, says) in [
        ("mcp.example/mcp", "is no URL"),
        ("ftp://a/", "neither http:// nor https://"),
        ("https://me:pw@a/", "`headers`"),
    ] {
        let why = ServerUrl::parse(url).expect_err("wrong");
        assert!(why.contains(says), "{url}: {why}");
    }
    let url = ServerUrl::parse("https://a.example/s/KEY/mcp?k=KEY#x").expect("a URL");
    assert_eq!(format!("{url}"), "https://a.example");
    assert!(!format!("{url:?}").contains("KEY"));
    assert_eq!(url.resource(), "https://a.example/s/KEY/mcp");
    for (url, is_exposed) in [
        ("http://a.example/", true),
        ("https://a.example/", false),
        ("http://localhost:1/", false),
        ("http://[::1]/", false),
        ("http://127.0.0.2/", false),
        ("http://127.0.0.1.example/", true),
    ] {
        assert_eq!(ServerUrl::parse(url).expect("a URL").is_exposed(), is_exposed, "{url}");
    }
}
