use std::time::Duration;

use serde_json::{Value, json};
use taskgate_credentials::Secret;

use super::{ISSUER, Net, RESOURCE, check, claims, claims_with, config};
use crate::clock::now;
use crate::{Access, Asking, Issuer, Proof, Refusal, StaticToken, TokenHash};

const ASK: &str = "https://login.example/introspect";

fn issuer() -> Issuer {
    let asking = Asking {
        url: ASK.to_owned(),
        client_id: "gate".to_owned(),
        client_secret: Secret::Text("s".to_owned()),
    };
    Issuer { proof: Proof::Asked(asking), ..Issuer::new(ISSUER) }
}

fn access(net: &Net) -> Access {
    Access::with(config(vec![issuer()]), net.fetch()).expect("access")
}

fn active(changes: &Value) -> Value {
    let mut said = claims_with(changes);
    said["active"] = json!(true);
    said
}

/// What an issuer says of an opaque token is held against the same as what it signs.
#[tokio::test]
async fn an_answer_is_held_against_what_is_expected() {
    for (said, expected) in [
        (active(&json!({})), Ok(())),
        (active(&json!({"iss": null})), Ok(())),
        (active(&json!({"iss": "https://evil.example"})), Err(Refusal::WrongIssuer)),
        (active(&json!({"aud": ["https://other.example", RESOURCE]})), Ok(())),
        (active(&json!({"aud": "https://other.example"})), Err(Refusal::WrongAudience)),
        (active(&json!({"aud": null})), Err(Refusal::WrongAudience)),
        (active(&json!({"exp": now() - 100.0})), Err(Refusal::Expired)),
        (active(&json!({"sub": null, "client_id": null})), Err(Refusal::NoSubject)),
        (claims(), Err(Refusal::Inactive)),
        (json!({"active": false}), Err(Refusal::Inactive)),
        (json!({"active": "true"}), Err(Refusal::Inactive)),
        (json!([]), Err(Refusal::Unavailable("its issuer does not answer as it should"))),
    ] {
        let net = Net::default();
        net.put(ASK, said.clone());
        assert_eq!(check(&access(&net), "opaque").await.map(|_| ()), expected, "{said}");
    }
    assert_eq!(
        check(&access(&Net::default()), "opaque").await.map(|_| ()),
        Err(Refusal::Unavailable("its issuer does not answer"))
    );
}

/// Answers are kept, good ones longer than bad ones, and the token itself is in none of them.
#[tokio::test(start_paused = true)]
async fn answers_are_kept_for_a_while() {
    let net = Net::default();
    net.put(ASK, active(&json!({})));
    let access = access(&net);
    for _ in 0..20 {
        assert!(check(&access, "opaque").await.is_ok());
    }
    assert_eq!(net.count(ASK), 1);
    assert_eq!(net.0.lock().forms, ["token=opaque&token_type_hint=access_token"]);
    net.put(ASK, json!({"active": false}));
    for _ in 0..20 {
        assert_eq!(check(&access, "another").await, Err(Refusal::Inactive));
    }
    assert_eq!(net.count(ASK), 2);
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(check(&access, "another").await, Err(Refusal::Inactive));
    assert_eq!(net.count(ASK), 3, "a bad answer does not count for long");
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(check(&access, "opaque").await, Err(Refusal::Inactive), "it has been withdrawn");
}

/// A token of the configuration is known by its hash, before anybody is asked.
#[tokio::test]
async fn tokens_of_the_configuration_are_nobody_elses() {
    let net = Net::default();
    let token =
        StaticToken { name: "ci".to_owned(), hash: TokenHash::of("secret"), scopes: vec!["mcp".to_owned()] };
    let mut config = config(vec![issuer()]);
    config.tokens.push(token.clone());
    let both = Access::with(config.clone(), net.fetch()).expect("access");
    assert_eq!(check(&both, "secret").await.map(|who| who.owner), Ok("token ci".to_owned()));
    assert_eq!(net.count(ASK), 0);
    assert!(matches!(check(&both, "secre").await, Err(Refusal::Unavailable(_))));
    config.issuers.clear();
    let alone = Access::with(config, net.fetch()).expect("access");
    assert_eq!(check(&alone, "secre").await, Err(Refusal::Unknown));
    assert_eq!((alone.metadata("x"), alone.challenge(&Refusal::Missing)), (None, "Bearer".to_owned()));
    assert!(!format!("{alone:?}").contains(&token.hash.to_string()));
}
