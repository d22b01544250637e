//! Signatures, put together again step by step from what arrived.

use std::io::Write;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::{Digest, Sha256};
use taskgate_job::auth::Aws;
use taskgate_job::{Auth, Http, JobApi, Secret};

use crate::api::{Heard, Server};
use crate::{call, declaration};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any key");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// The `Authorization` that a request must have (AWS, "Create a signed request").
fn signature(heard: &Heard, key_id: &str, key: &str, region: &str, service: &str) -> String {
    let time = heard.header("x-amz-date");
    let scope = format!("{}/{region}/{service}/aws4_request", &time[..8]);
    let said = heard.header("authorization");
    let (_, rest) = said.split_once("SignedHeaders=").expect("signed headers");
    let (signed, _) = rest.split_once(',').expect("their end");
    for needed in ["host", "x-amz-date"] {
        assert!(signed.split(';').any(|name| name == needed), "{signed}");
    }
    let headers: String =
        signed.split(';').map(|name| format!("{name}:{}\n", heard.header(name).trim())).collect();
    let (path, query) = heard.path.split_once('?').unwrap_or((&heard.path, ""));
    let body = hex(&Sha256::digest(heard.body.as_bytes()));
    let canonical = format!("{}\n{path}\n{query}\n{headers}\n{signed}\n{body}", heard.method);
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let key = mac(format!("AWS4{key}").as_bytes(), &time[..8]);
    let key = [region, service, "aws4_request"].iter().fold(key, |key, part| mac(&key, part));
    let signature = hex(&mac(&key, &to_sign));
    format!("AWS4-HMAC-SHA256 Credential={key_id}/{scope}, SignedHeaders={signed}, Signature={signature}")
}

fn file(text: &str) -> (tempfile::NamedTempFile, Secret) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    let secret = Secret::File(file.path().to_owned());
    (file, secret)
}

#[tokio::test]
async fn a_signature_is_the_one_that_is_wanted() {
    let (server, base) = Server::start().await;
    let (id_file, id) = file("AKIDEXAMPLE\n");
    let (_key_file, key) = file("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    let (_token_file, token) = file("session/token==");
    for session_token in [None, Some(token)] {
        let is_session = session_token.is_some();
        let mut declared = declaration(&base);
        let (region, service) = ("eu-central-1".to_owned(), "states".to_owned());
        let keys = Some((id.clone(), key.clone()));
        declared.auth = Auth::Aws(Aws { region, service, keys, session_token });
        assert!(!format!("{:?}", declared.auth).contains("wJalr"));
        let api = JobApi::new(declared, Http::new(None).expect("connections"));
        server.will(200, r#"{"id": "1"}"#).await;
        api.start(&call(json!({"text": "é <&>"}))).await.expect("started");
        let heard = server.heard().await.remove(0);
        let expected = signature(
            &heard,
            "AKIDEXAMPLE",
            "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            "eu-central-1",
            "states",
        );
        assert_eq!(heard.header("authorization"), expected);
        assert_eq!(heard.header("x-amz-security-token"), if is_session { "session/token==" } else { "" });
        assert_eq!(expected.contains("x-amz-security-token"), is_session);
    }
    std::fs::write(id_file.path(), "").expect("emptied");
    let mut declared = declaration(&base);
    let (region, service) = ("eu-central-1".to_owned(), "states".to_owned());
    declared.auth = Auth::Aws(Aws { region, service, keys: Some((id, key)), session_token: None });
    let failure = JobApi::new(declared, Http::new(None).expect("connections")).start(&call(json!({}))).await;
    let failure = failure.expect_err("no key").to_string();
    assert!(failure.contains("cannot be signed") && failure.contains("is empty"), "{failure}");
}
