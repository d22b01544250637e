//! What an answer says of where to look: it leads to the API itself, to what everybody can reach, and to nothing in between.

use axum::http::Method;
use serde_json::{Map, Value, json};
use taskgate_job::{Auth, Failure, Http, JobApi, Secret};
use taskgate_reach::{Allowed, Reach};

use crate::api::Server;
use crate::{call, declaration, request};

/// An API that says where its jobs are looked at.
fn api(base: &str, allowed: &[&str]) -> JobApi {
    let mut declared = declaration(base);
    declared.auth = Auth::Bearer(Secret::Text("sesame".to_owned()));
    declared.status.request = request("status", Method::GET, "{{ job.id|safe }}", None);
    let allowed = allowed.iter().map(|text| Allowed::parse(text).expect("allowed")).collect();
    JobApi::new(declared, Http::within(Reach::new(allowed), None).expect("connections"))
}

fn at(url: &str) -> Map<String, Value> {
    Map::from_iter([("id".to_owned(), json!(url))])
}

#[tokio::test]
async fn an_answer_leads_nowhere_inside() {
    let ((server, base), (inner, there)) = (Server::start().await, Server::start().await);
    let port = there.rsplit(':').next().expect("a port");
    let api = api(&base, &[]);
    for (url, at_what) in [
        (format!("{there}/1"), "this machine"),
        (format!("http://localhost:{port}/1"), "this machine"),
        (format!("http://[::ffff:127.0.0.1]:{port}/1"), "this machine"),
        (format!("http://2130706433:{port}/1"), "this machine"),
        // What URLs make of it is what counts.
        (format!("http://127.0.0.1:{port}\\@a.example/1"), "this machine"),
        (format!("{base}@127.0.0.1:{port}/1").replace("http://", "http://x:y@"), "url"),
        ("http://169.254.169.254/latest/meta-data/".to_owned(), "a link-local address"),
        ("https://10.0.0.1/".to_owned(), "a private address"),
        ("http://[fd00:ec2::254]/".to_owned(), "a private address"),
        ("http://0.0.0.0/".to_owned(), "no address that everybody can reach"),
        ("file:///etc/passwd".to_owned(), "neither http"),
    ] {
        let refused = api.look(&call(json!({})), &at(&url)).await.expect_err("refused");
        assert!(matches!(refused, Failure::Unmade { .. }), "{url}: {refused:?}");
        let said = refused.to_string();
        assert!(said.contains(at_what), "{url}: {said}");
        assert!(
            at_what.contains("http") || at_what == "url" || said.contains("`allow_private` of [network]"),
            "{said}"
        );
    }
    assert!(inner.heard().await.is_empty() && server.heard().await.is_empty());
}

/// The API's own host is one that the declaration names, and gets what shows who we are. Another host that is allowed does not.
#[tokio::test]
async fn only_the_api_itself_learns_who_we_are() {
    let ((server, base), (inner, there)) = (Server::start().await, Server::start().await);
    server.will(200, r#"{"state": "DONE"}"#).await;
    api(&base, &[]).look(&call(json!({})), &at(&format!("{base}/x"))).await.expect("seen");
    assert_eq!(server.heard().await[0].header("authorization"), "Bearer sesame");
    for allowed in ["127.0.0.0/8", "127.0.0.1"] {
        inner.will(200, r#"{"state": "DONE"}"#).await;
        api(&base, &[allowed]).look(&call(json!({})), &at(&format!("{there}/x"))).await.expect("seen");
        let heard = inner.heard().await;
        assert_eq!((heard[0].path.as_str(), heard[0].header("authorization")), ("/x", ""));
    }
    inner.will(200, r#"{"state": "DONE"}"#).await;
    let named = there.replace("127.0.0.1", "localhost");
    api(&base, &["localhost"]).look(&call(json!({})), &at(&named)).await.expect("seen");
    assert_eq!(inner.heard().await.len(), 1);
}

/// A redirect is not followed, wherever it leads to.
#[tokio::test]
async fn a_redirect_is_an_answer() {
    let ((server, base), (inner, there)) = (Server::start().await, Server::start().await);
    for location in [format!("{there}/x"), format!("{base}/y"), "http://169.254.169.254/".to_owned()] {
        server.will_say(307, ("location", &location), "").await;
        let refused = api(&base, &[]).look(&call(json!({})), &at(&format!("{base}/x"))).await;
        assert_eq!(refused.expect_err("refused").code(), Some(307));
    }
    assert_eq!(server.heard().await.len(), 3);
    assert!(inner.heard().await.is_empty());
}

/// Whatever an argument is, the host stays the one of the declaration.
#[test]
fn no_argument_changes_the_host() {
    for args in [
        "@evil.example",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "#@evil.example",
        "?@evil.example/",
        "%2F%2Fevil.example",
        "\u{ff0f}\u{ff0f}evil.example",
        "\u{3002}evil.example",
        ":80@evil.example",
        "\t//evil.example",
        "\r\nHost: evil.example",
        "x@169.254.169.254",
        "http://evil.example",
    ] {
        for source in [
            "http://api.example:81/{{ args.a }}",
            "http://api.example:81/{{ args.a|safe }}",
            "http://api.example:81/x{{ args.a|safe }}",
            "http://api.example:81?x={{ args.a|safe }}",
            "http://api.example:81#{{ args.a|safe }}",
        ] {
            let template = crate::template(source, taskgate_job::Escape::Url);
            let values = minijinja::value::Serde(&json!({"args": {"a": args}, "with": {}}));
            // What cannot be inserted at all is fine, too.
            let Ok(text) = template.render(&values.into()) else { continue };
            let url: reqwest::Url = text.parse().expect("a URL");
            assert_eq!(
                (url.host_str(), url.port()),
                (Some("api.example"), Some(81)),
                "{source} with {args:?}"
            );
            assert_eq!((url.username(), url.password()), ("", None), "{source} with {args:?}");
        }
    }
    for source in [
        "http://{{ args.a }}/",
        "http://api.example{{ args.a }}/",
        "http://api.example:{{ args.a }}/",
        "{{ args.a|safe }}",
    ] {
        let refused = taskgate_job::Template::new(source, taskgate_job::Escape::Url, &crate::scope());
        assert!(refused.expect_err("refused").to_string().contains("which host is asked"), "{source}");
    }
}
