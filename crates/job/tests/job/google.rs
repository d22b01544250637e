//! Tokens of Google Cloud, asked for with a key that was made for this test and with none.

use std::io::Write;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use taskgate_job::auth::Google;
use taskgate_job::{Auth, Http, JobApi, Secret};

use crate::api::{Heard, Server};
use crate::{call, declaration};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

fn openssl(arguments: &[&str], stdin: &[u8]) -> Vec<u8> {
    let mut command = Command::new("openssl");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("openssl is there");
    child.stdin.take().expect("a pipe").write_all(stdin).expect("written");
    let output = child.wait_with_output().expect("its output");
    assert!(output.status.success(), "{arguments:?}");
    output.stdout
}

fn started(heard: &[Heard]) -> Vec<&str> {
    heard.iter().map(|heard| heard.header("authorization")).filter(|said| !said.is_empty()).collect()
}

fn api(base: &str, google: Google) -> JobApi {
    let mut declared = declaration(base);
    declared.auth = Auth::Google(google);
    JobApi::new(declared, Http::new(None).expect("connections"))
}

#[tokio::test]
async fn a_key_signs_for_a_token() {
    let (server, base) = Server::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let pem = openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], b"");
    let public = openssl(&["pkey", "-pubout"], &pem);
    let token_uri = format!("{base}/token");
    let key = json!({
        "type": "service_account", "client_email": "me@example", "private_key_id": "k1",
        "private_key": String::from_utf8(pem).expect("text"), "token_uri": token_uri,
    });
    let file = folder.path().join("key.json");
    std::fs::write(&file, key.to_string()).expect("written");
    let google = Google::new(Some(Secret::File(file.clone())), SCOPE.to_owned(), None);
    let api = api(&base, google);
    server.will(200, r#"{"access_token": "t1", "expires_in": 3599, "token_type": "Bearer"}"#).await;
    server.will(200, r#"{"id": "1"}"#).await;
    api.start(&call(json!({}))).await.expect("started");
    let heard = server.heard().await;
    assert_eq!(started(&heard), ["Bearer t1"]);
    assert_eq!((heard[0].method.as_str(), heard[0].path.as_str()), ("POST", "/token"));
    let body = &heard[0].body;
    let (grant, assertion) = body.split_once("&assertion=").expect("an assertion");
    assert_eq!(grant, "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer");
    let (statement, signature) = assertion.rsplit_once('.').expect("a signature");
    let decoded = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("base64");
    let parts: Vec<Value> =
        statement.split('.').map(|part| serde_json::from_slice(&decoded(part)).expect("JSON")).collect();
    assert_eq!(parts[0], json!({"alg": "RS256", "typ": "JWT", "kid": "k1"}));
    let (claims, number) = (&parts[1], |name: &str| parts[1][name].as_i64().expect("a number"));
    assert_eq!(
        (&claims["iss"], &claims["scope"], &claims["aud"]),
        (&json!("me@example"), &json!(SCOPE), &json!(token_uri))
    );
    assert!((1..=3600).contains(&(number("exp") - number("iat"))));
    // Somebody else says whether it is signed.
    let [key_file, signature_file] = ["public.pem", "signature"].map(|name| folder.path().join(name));
    std::fs::write(&key_file, public).expect("written");
    std::fs::write(&signature_file, decoded(signature)).expect("written");
    let [key_file, signature_file] =
        [&key_file, &signature_file].map(|path| path.to_str().expect("a plain path"));
    let said = openssl(
        &["dgst", "-sha256", "-verify", key_file, "-signature", signature_file],
        statement.as_bytes(),
    );
    assert_eq!(String::from_utf8_lossy(&said).trim(), "Verified OK");
    // A key that is none is not shown.
    std::fs::write(&file, "{\"private_key\": \"geheim\"}").expect("written");
    server.will(401, "").await;
    let failure = api.start(&call(json!({}))).await.expect_err("no key").to_string();
    assert!(failure.contains("service account") && !failure.contains("geheim"), "{failure}");
}

#[tokio::test]
async fn a_machine_has_a_token_of_its_own() {
    let (server, base) = Server::start().await;
    let url = format!("{base}/computeMetadata/v1/token").parse().expect("a URL");
    let api = api(&base, Google::new(None, SCOPE.to_owned(), Some(url)));
    server.will(200, r#"{"access_token": "t2", "expires_in": 60, "token_type": "Bearer"}"#).await;
    server.will(200, r#"{"id": "1"}"#).await;
    api.start(&call(json!({}))).await.expect("started");
    let heard = server.heard().await;
    assert_eq!(started(&heard), ["Bearer t2"]);
    assert_eq!((heard[0].method.as_str(), heard[0].header("metadata-flavor")), ("GET", "Google"));
}
