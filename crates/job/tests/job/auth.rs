//! Who we are, as a server sees it.

use std::io::Write;
use std::sync::Arc;

use serde_json::json;
use taskgate_credentials::{OAuth, Tokens};
use taskgate_job::{Auth, Failure, Http, JobApi, Secret};

use crate::api::Server;
use crate::{call, declaration};

fn file(text: &str) -> (tempfile::NamedTempFile, Secret) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    let secret = Secret::File(file.path().to_owned());
    (file, secret)
}

fn api(base: &str, auth: Auth) -> JobApi {
    let mut declared = declaration(base);
    declared.auth = auth;
    JobApi::new(declared, Http::new(None).expect("connections"))
}

fn oauth(base: &str, oauth: OAuth) -> Auth {
    let token_url = format!("{base}/token").parse().expect("a URL");
    Auth::OAuth { token_url, tokens: Arc::new(Tokens::new(oauth)) }
}

const STARTED: &str = r#"{"id": "1"}"#;

#[tokio::test]
async fn a_secret_is_sent_and_read_anew() {
    let (server, base) = Server::start().await;
    let (mut kept, secret) = file("first\n");
    let cases = [
        (Auth::Bearer(secret.clone()), "authorization", "Bearer first"),
        (
            Auth::Basic { user: "me".to_owned(), password: secret.clone() },
            "authorization",
            "Basic bWU6Zmlyc3Q=",
        ),
        (
            Auth::Header { name: "x-api-key".parse().expect("a name"), value: secret.clone() },
            "x-api-key",
            "first",
        ),
    ];
    for (auth, header, value) in cases {
        assert!(!format!("{auth:?}").contains("first"), "{auth:?}");
        server.will(200, STARTED).await;
        api(&base, auth).start(&call(json!({}))).await.expect("started");
        assert_eq!(server.heard().await[0].header(header), value);
    }
    let api = api(&base, Auth::Bearer(secret));
    kept.as_file_mut().set_len(0).expect("emptied");
    let failure = api.start(&call(json!({}))).await.expect_err("it is empty");
    assert!(
        matches!(failure, Failure::Unmade { .. }) && failure.to_string().contains("is empty"),
        "{failure}"
    );
    std::fs::write(kept.path(), "second").expect("written");
    server.will(200, STARTED).await;
    api.start(&call(json!({}))).await.expect("started");
    assert_eq!(server.heard().await[0].header("authorization"), "Bearer second");
    let missing = self::api(&base, Auth::Bearer(Secret::Env("TASKGATE_TEST_NO_SUCH".to_owned())));
    let failure = missing.start(&call(json!({}))).await.expect_err("it is not set");
    assert!(failure.to_string().contains("TASKGATE_TEST_NO_SUCH is not set"), "{failure}");
}

/// A token is asked for once, kept, and asked for again when it is not believed, but only once.
#[tokio::test]
async fn a_token_is_kept_until_it_is_not_believed() {
    let (server, base) = Server::start().await;
    let (_kept, secret) = file("s/cret");
    let asked = OAuth { scope: Some("jobs run".to_owned()), ..OAuth::new("me:too", secret.clone()) };
    let api = api(&base, oauth(&base, asked));
    let token =
        |token: &str| json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600}).to_string();
    server.will(200, token("one")).await;
    server.will(200, STARTED).await;
    server.will(200, STARTED).await;
    for _ in 0..2 {
        api.start(&call(json!({}))).await.expect("started");
    }
    let heard = server.heard().await;
    let paths: Vec<_> = heard.iter().map(|heard| heard.path.as_str()).collect();
    assert_eq!(paths, ["/token", "/jobs", "/jobs"]);
    assert_eq!(heard[0].body, "grant_type=client_credentials&scope=jobs+run");
    assert_eq!(heard[0].header("authorization"), "Basic bWUlM0F0b286cyUyRmNyZXQ=");
    assert_eq!(heard[2].header("authorization"), "Bearer one");
    server.will(401, "").await;
    server.will(200, token("two")).await;
    server.will(200, STARTED).await;
    api.start(&call(json!({}))).await.expect("started");
    assert_eq!(server.heard().await[2].header("authorization"), "Bearer two");
    server.will(401, "").await;
    server.will(200, token("three")).await;
    server.will(401, "go away").await;
    let failure = api.start(&call(json!({}))).await.expect_err("never believed");
    assert_eq!((failure.code(), failure.is_transient()), (Some(401), false));
    assert_eq!(server.heard().await.len(), 3);
}

/// What goes wrong with a token says so, gives no secret away, and has started nothing.
#[tokio::test]
async fn no_token_means_nothing_was_sent() {
    let (server, base) = Server::start().await;
    let (_kept, secret) = file("geheim");
    let asked = OAuth { secret_in_form: true, ..OAuth::new("me", secret) };
    let api = api(&base, oauth(&base, asked));
    for (code, body, is_transient) in [
        (503, "later", true),
        (400, r#"{"error":"invalid_client"}"#, false),
        (200, r#"{"token":"x"}"#, false),
    ] {
        server.will(code, body).await;
        let failure = api.start(&call(json!({}))).await.expect_err("no token");
        assert_eq!((failure.is_transient(), failure.did_nothing()), (is_transient, true), "{failure}");
        assert!(
            failure.to_string().contains("token") && !failure.to_string().contains("geheim"),
            "{failure}"
        );
    }
    assert_eq!(
        server.heard().await[0].body,
        "grant_type=client_credentials&client_id=me&client_secret=geheim"
    );
}

/// A token is not used in the last part of its time.
#[tokio::test]
async fn a_token_is_asked_for_anew_before_its_end() {
    let (server, base) = Server::start().await;
    let (_kept, secret) = file("geheim");
    // Its time, how long it is kept, and whether it is asked for anew then.
    for (expires_in, after, is_anew) in
        [(3600, 3560, false), (3600, 3575, true), (40, 15, false), (40, 25, true)]
    {
        let api = api(&base, oauth(&base, OAuth::new("me", secret.clone())));
        let token =
            json!({"access_token": "x", "token_type": "Bearer", "expires_in": expires_in}).to_string();
        server.will(200, token.clone()).await;
        server.will(200, STARTED).await;
        api.start(&call(json!({}))).await.expect("started");
        tokio::time::pause();
        tokio::time::advance(std::time::Duration::from_secs(after)).await;
        tokio::time::resume();
        if is_anew {
            server.will(200, token).await;
        }
        server.will(200, STARTED).await;
        api.start(&call(json!({}))).await.expect("started");
        assert_eq!(server.heard().await.len(), if is_anew { 4 } else { 3 }, "{expires_in} {after}");
    }
}
