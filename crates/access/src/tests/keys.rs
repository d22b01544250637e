use futures_util::future::join_all;
use serde_json::json;

use super::signer::Signer;
use super::{ISSUER, KEYS, METADATA, Net, check, claims, config};
use crate::keys::{BETWEEN, FRESH};
use crate::{Access, Issuer, KeySource, Proof, Refusal};

fn issuer() -> Issuer {
    let proof = Proof::Signed { algorithms: Issuer::ALGORITHMS.to_vec(), keys: KeySource::Discovered };
    Issuer { proof, ..Issuer::new(ISSUER) }
}

fn access(net: &Net) -> Access {
    Access::with(config(vec![issuer()]), net.fetch()).expect("access")
}

/// Keys are fetched once for all who come at the same time, and then kept.
#[tokio::test(start_paused = true)]
async fn keys_are_fetched_once() {
    let signer = Signer::ed("one");
    let net = Net::with_keys(&[signer.public()]);
    let access = access(&net);
    assert_eq!(net.count(METADATA), 0);
    let token = signer.sign(&claims());
    let all = join_all((0..50).map(|_| check(&access, &token))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!((net.count(METADATA), net.count(KEYS)), (1, 1));
}

/// A key that is new is found; keys that nobody has do not become requests.
#[tokio::test(start_paused = true)]
async fn unknown_keys_are_looked_for_now_and_then() {
    let (old, new) = (Signer::ed("old"), Signer::ed("new"));
    let net = Net::with_keys(&[old.public()]);
    let access = access(&net);
    assert!(check(&access, &old.sign(&claims())).await.is_ok());
    let made_up = old.sign_with(&json!({"alg": "EdDSA", "kid": "made up"}), &claims());
    for _ in 0..200 {
        assert_eq!(check(&access, &made_up).await, Err(Refusal::UnknownKey));
    }
    assert_eq!(net.count(KEYS), 1);
    net.put(KEYS, json!({"keys": [new.public()]}));
    tokio::time::advance(BETWEEN).await;
    assert!(check(&access, &new.sign(&claims())).await.is_ok());
    assert_eq!(
        check(&access, &old.sign(&claims())).await,
        Err(Refusal::UnknownKey),
        "its issuer has withdrawn it"
    );
    assert_eq!(net.count(KEYS), 2);
}

/// While an issuer is down, what is known of it goes on; what never was known is nobody's fault but its own.
#[tokio::test(start_paused = true)]
async fn an_issuer_may_be_down() {
    let signer = Signer::ed("one");
    let net = Net::default();
    let access = access(&net);
    let token = signer.sign(&claims());
    for _ in 0..20 {
        assert!(matches!(check(&access, &token).await, Err(Refusal::Unavailable(_))));
    }
    assert_eq!(net.count(METADATA), 1);
    net.put(METADATA, json!({"issuer": ISSUER, "jwks_uri": KEYS}));
    net.put(KEYS, json!({"keys": [signer.public()]}));
    tokio::time::advance(BETWEEN).await;
    assert!(check(&access, &token).await.is_ok());
    net.remove(KEYS);
    tokio::time::advance(FRESH).await;
    for _ in 0..20 {
        assert!(check(&access, &token).await.is_ok());
        tokio::task::yield_now().await;
    }
    // It was looked for again, by nobody who waited for it.
    while net.count(KEYS) < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(net.count(KEYS), 2);
    assert!(check(&access, &token).await.is_ok());
}

/// Metadata of another issuer, keys over a connection that others can change, and too many keys are not believed.
#[tokio::test(start_paused = true)]
async fn an_issuer_speaks_for_itself_and_in_private() {
    let signer = Signer::ed("one");
    let many: Vec<_> = (0..65).map(|_| signer.public()).collect();
    for (metadata, keys) in [
        (json!({"issuer": "https://evil.example", "jwks_uri": KEYS}), json!({"keys": [signer.public()]})),
        (
            json!({"issuer": ISSUER, "jwks_uri": "http://login.example/keys"}),
            json!({"keys": [signer.public()]}),
        ),
        (json!({"issuer": ISSUER, "jwks_uri": KEYS}), json!({"keys": many})),
        (json!({"issuer": ISSUER, "jwks_uri": KEYS}), json!(["no set"])),
        (json!({"issuer": ISSUER}), json!({"keys": [signer.public()]})),
    ] {
        let net = Net::default();
        net.put(METADATA, metadata);
        net.put("http://login.example/keys", keys.clone());
        net.put(KEYS, keys);
        let refused = check(&access(&net), &signer.sign(&claims())).await;
        assert!(matches!(refused, Err(Refusal::Unavailable(_))), "{refused:?}");
    }
}

/// An issuer's own host was written by somebody who is trusted; where it leads to from there was not.
#[tokio::test(start_paused = true)]
async fn keys_elsewhere_are_only_the_issuers_word() {
    let signer = Signer::ed("one");
    for (place, is_named) in [
        ("https://login.example/other", false),
        ("https://LOGIN.example:443/keys", false),
        ("https://login.example:8443/keys", true),
        ("https://keys.example/", true),
        ("https://169.254.169.254/keys", true),
    ] {
        let net = Net::default();
        net.put(METADATA, json!({"issuer": ISSUER, "jwks_uri": place}));
        net.put(place, json!({"keys": [signer.public()]}));
        check(&access(&net), &signer.sign(&claims())).await.expect("believed");
        assert_eq!(net.0.lock().named.len(), usize::from(is_named), "{place}");
    }
}

/// Keys that are not for signatures, or shared secrets, are no keys.
#[tokio::test(start_paused = true)]
async fn keys_for_something_else_are_passed_over() {
    let signer = Signer::ed("one");
    let mut for_encryption = signer.public();
    for_encryption["use"] = json!("enc");
    let mut of_another = signer.public();
    of_another["alg"] = json!("ES256");
    let net = Net::with_keys(&[
        for_encryption,
        of_another,
        json!({"kty": "oct", "kid": "one", "k": "AAAA"}),
        json!({"kty": "OKP", "crv": "X25519", "kid": "one", "x": "AAAA"}),
        json!("no key"),
        json!({}),
    ]);
    assert_eq!(check(&access(&net), &signer.sign(&claims())).await, Err(Refusal::UnknownKey));
}
