use std::time::Duration;

use serde_json::{Value, json};

use super::signer::{Signer, encode, message, sign_shared};
use super::{ISSUER, KEYS, Net, RESOURCE, check, claims, claims_with, config};
use crate::clock::now;
use crate::{Access, Algorithm, Issuer, KeySource, Proof, Refusal};

fn issuer(algorithms: &[Algorithm]) -> Issuer {
    let proof = Proof::Signed { algorithms: algorithms.to_vec(), keys: KeySource::Discovered };
    Issuer { proof, ..Issuer::new(ISSUER) }
}

fn access(net: &Net, issuer: Issuer) -> Access {
    Access::with(config(vec![issuer]), net.fetch()).expect("access")
}

/// Case 36: whom a token is for, from and how long, in every way in which it can be wrong.
#[tokio::test]
async fn claims_are_held_against_what_is_expected() {
    let signer = Signer::ed("one");
    let access = access(&Net::with_keys(&[signer.public()]), issuer(&Issuer::ALGORITHMS));
    let now = now();
    let other = "https://other.example/mcp";
    for (changes, expected) in [
        (json!({}), Ok(())),
        (json!({"aud": [other, RESOURCE]}), Ok(())),
        (json!({"aud": format!("{RESOURCE}/")}), Ok(())),
        (json!({"aud": "HTTPS://GATE.example:443/mcp"}), Ok(())),
        (json!({"aud": other}), Err(Refusal::WrongAudience)),
        (json!({"aud": [other]}), Err(Refusal::WrongAudience)),
        (json!({"aud": []}), Err(Refusal::WrongAudience)),
        (json!({"aud": [[RESOURCE]]}), Err(Refusal::WrongAudience)),
        (json!({"aud": {"x": RESOURCE}}), Err(Refusal::WrongAudience)),
        (json!({"aud": null}), Err(Refusal::WrongAudience)),
        (json!({"aud": format!("{RESOURCE}/more")}), Err(Refusal::WrongAudience)),
        (json!({"aud": "https://gate.example"}), Err(Refusal::WrongAudience)),
        (json!({"exp": now - 3600.0}), Err(Refusal::Expired)),
        // Within the leeway.
        (json!({"exp": now - 10.0}), Ok(())),
        (json!({"exp": null}), Err(Refusal::NoExpiry)),
        (json!({"exp": "9999999999"}), Err(Refusal::NoExpiry)),
        (json!({"nbf": now + 3600.0}), Err(Refusal::NotYetValid)),
        (json!({"nbf": "soon"}), Err(Refusal::NotYetValid)),
        (json!({"nbf": now + 10.0}), Ok(())),
        (json!({"nbf": null}), Ok(())),
        (json!({"iss": "https://login.example/"}), Err(Refusal::WrongIssuer)),
        (json!({"iss": "https://evil.example"}), Err(Refusal::WrongIssuer)),
        (json!({"iss": null}), Err(Refusal::WrongIssuer)),
        (json!({"iss": [ISSUER]}), Err(Refusal::WrongIssuer)),
        (json!({"sub": null, "client_id": null}), Err(Refusal::NoSubject)),
    ] {
        let token = signer.sign(&claims_with(&changes));
        assert_eq!(check(&access, &token).await.map(|_| ()), expected, "{changes}");
    }
}

/// As deep as a token can be: it is refused like any that cannot be read, before a key is looked for.
#[tokio::test]
async fn deep_tokens_are_no_tokens() {
    let net = Net::with_keys(&[Signer::ed("one").public()]);
    let access = access(&net, issuer(&Issuer::ALGORITHMS));
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(700), close.repeat(700));
        for (head, body) in [
            (r#"{"alg":"EdDSA"}"#.to_owned(), format!(r#"{{"iss":{deep}}}"#)),
            (format!(r#"{{"alg":"EdDSA","crit":{deep}}}"#), format!(r#"{{"iss":"{ISSUER}"}}"#)),
            (format!(r#"{{"alg":{deep}}}"#), format!(r#"{{"iss":"{ISSUER}"}}"#)),
            (deep.clone(), deep.clone()),
        ] {
            let token = format!("{}.{}.AAAA", encode(head.as_bytes()), encode(body.as_bytes()));
            assert_eq!(check(&access, &token).await.map(|_| ()), Err(Refusal::Unknown), "{head} {body}");
        }
    }
    assert_eq!(net.count(KEYS), 0);
}

/// Case 36: how a token is signed, in every way in which it can be wrong. No algorithm makes a public key a secret.
#[tokio::test]
async fn a_token_is_signed_by_its_issuer_or_worth_nothing() {
    let (ed, ec, rsa) = (Signer::ed("ed"), Signer::ec("ec"), Signer::rsa("rsa"));
    let stranger = Signer::ed("ed");
    let access =
        access(&Net::with_keys(&[ed.public(), ec.public(), rsa.public()]), issuer(&Issuer::ALGORITHMS));
    for signer in [&ed, &ec, &rsa] {
        let token = signer.sign(&claims());
        assert_eq!(
            check(&access, &token).await.map(|who| who.owner),
            Ok(format!(r#"oauth ["{ISSUER}","ann","app"]"#))
        );
        // A letter of each part is another one.
        for place in [token.len() - 10, token.rfind('.').expect("a dot") - 10] {
            let letter = if &token[place..=place] == "A" { "B" } else { "A" };
            let changed = format!("{}{letter}{}", &token[..place], &token[place + 1..]);
            assert!(check(&access, &changed).await.is_err(), "{}", signer.algorithm());
        }
        let head = json!({"alg": signer.algorithm()});
        assert!(
            check(&access, &signer.sign_with(&head, &claims())).await.is_ok(),
            "a token that names no key"
        );
        for alg in ["HS256", "HS384", "HS512"] {
            let head = json!({"alg": alg, "kid": signer.id});
            let jwk = signer.public().to_string();
            for secret in [signer.public_bytes(), jwk.into_bytes(), Vec::new()] {
                let confused = sign_shared(&head, &claims(), &secret);
                assert_eq!(
                    check(&access, &confused).await,
                    Err(Refusal::Algorithm),
                    "{alg} {}",
                    signer.algorithm()
                );
            }
        }
    }
    assert!(check(&access, &rsa.sign_with(&json!({"alg": "PS256", "kid": "rsa"}), &claims())).await.is_ok());
    let (head, body, signature) = ("EdDSA", claims(), encode(&[0; 64]));
    let unsigned = |alg: &str, kid: &str, rest: &str| {
        format!("{}.{rest}", message(&json!({"alg": alg, "kid": kid}), &body))
    };
    for (token, expected) in [
        (stranger.sign(&body), Refusal::BadSignature),
        (stranger.sign_with(&json!({"alg": head}), &body), Refusal::BadSignature),
        (ed.sign_with(&json!({"alg": head, "kid": "no such"}), &body), Refusal::UnknownKey),
        // The key of another kind than its algorithm.
        (ed.sign_with(&json!({"alg": "ES256", "kid": "ed"}), &body), Refusal::UnknownKey),
        (ed.sign_with(&json!({"alg": "RS256", "kid": "rsa"}), &body), Refusal::BadSignature),
        (
            ed.sign_with(&json!({"alg": head, "kid": "ed", "crit": ["x"], "x": 1}), &body),
            Refusal::Malformed("it has critical extensions"),
        ),
        (unsigned("none", "ed", ""), Refusal::Algorithm),
        (unsigned("None", "ed", ""), Refusal::Algorithm),
        (unsigned("nOnE", "ed", &signature), Refusal::Algorithm),
        (unsigned("", "ed", &signature), Refusal::Algorithm),
        (unsigned("EdDSA", "ed", ""), Refusal::BadSignature),
        (unsigned("EdDSA", "ed", &signature), Refusal::BadSignature),
        (unsigned("ES256", "ec", &signature), Refusal::BadSignature),
        // Not even a token.
        ("a.b.c".to_owned(), Refusal::Unknown),
        (ed.sign(&Value::Null), Refusal::Unknown),
    ] {
        assert_eq!(check(&access, &token).await.map(|_| ()), Err(expected), "{token}");
    }
}

/// Case 36: algorithms are those that are configured for the issuer, and those a key is for.
#[tokio::test]
async fn algorithms_are_pinned() {
    let (ed, rsa) = (Signer::ed("ed"), Signer::rsa("rsa"));
    let mut only_pss = rsa.public();
    only_pss["alg"] = json!("PS256");
    let net = Net::with_keys(&[ed.public(), only_pss]);
    let pinned = access(&net, issuer(&[Algorithm::RS256, Algorithm::PS256]));
    assert_eq!(check(&pinned, &ed.sign(&claims())).await, Err(Refusal::Algorithm));
    assert_eq!(check(&pinned, &rsa.sign(&claims())).await, Err(Refusal::UnknownKey));
    assert!(check(&pinned, &rsa.sign_with(&json!({"alg": "PS256", "kid": "rsa"}), &claims())).await.is_ok());
    let shared = Access::with(config(vec![issuer(&[Algorithm::HS256])]), net.fetch());
    assert!(shared.is_err(), "a shared secret for tokens of an issuer");
}

/// Case 36: an issuer that cannot say the resource says something else, and then only that counts.
#[tokio::test]
async fn an_audience_can_be_set_for_an_issuer() {
    let signer = Signer::ed("one");
    let named = Issuer { audiences: vec!["api://gate".to_owned()], ..issuer(&Issuer::ALGORITHMS) };
    let access = access(&Net::with_keys(&[signer.public()]), named);
    for (audience, good) in [("api://gate", true), ("api://gate/", false), (RESOURCE, false)] {
        let token = signer.sign(&claims_with(&json!({"aud": audience})));
        assert_eq!(check(&access, &token).await.is_ok(), good, "{audience}");
    }
}

/// Of several issuers each signs for itself alone, and one subject of two is two callers.
#[tokio::test]
async fn issuers_do_not_speak_for_each_other() {
    let (one, two) = (Signer::ed("same"), Signer::ed("same"));
    let net = Net::with_keys(&[one.public()]);
    net.put(
        "https://b.example/t/.well-known/openid-configuration",
        json!({"issuer": "https://b.example/t", "jwks_uri": "https://b.example/k"}),
    );
    net.put("https://b.example/k", json!({"keys": [two.public()]}));
    let second = Issuer {
        name: "https://b.example/t".to_owned(),
        leeway: Duration::ZERO,
        ..issuer(&Issuer::ALGORITHMS)
    };
    let access =
        Access::with(config(vec![issuer(&Issuer::ALGORITHMS), second]), net.fetch()).expect("access");
    let of_two = claims_with(&json!({"iss": "https://b.example/t"}));
    let owners = [check(&access, &one.sign(&claims())).await, check(&access, &two.sign(&of_two)).await];
    assert_ne!(owners[0].as_ref().expect("let in").owner, owners[1].as_ref().expect("let in").owner);
    assert_eq!(check(&access, &one.sign(&of_two)).await, Err(Refusal::BadSignature));
    assert_eq!(check(&access, &two.sign(&claims())).await, Err(Refusal::BadSignature));
}

/// Nothing that is told of a refusal has a part of the token in it, and all of it fits into a header.
#[tokio::test]
async fn refusals_do_not_repeat_tokens() {
    let signer = Signer::ed("sentinel-kid");
    let access = access(&Net::with_keys(&[]), issuer(&Issuer::ALGORITHMS));
    for token in [signer.sign(&claims()), "sentinel.sentinel".to_owned(), "a\"b".to_owned()] {
        let refusal = check(&access, &token).await.expect_err("refused");
        let challenge = access.challenge(&refusal);
        assert!(challenge.starts_with("Bearer error=\"invalid_token\", error_description=\""), "{challenge}");
        assert!(
            challenge.is_ascii() && !challenge.contains("sentinel") && !challenge.contains(&token),
            "{challenge}"
        );
        assert_eq!(challenge.matches('"').count(), 6, "{challenge}");
    }
    assert_eq!(
        access.challenge(&Refusal::Missing),
        r#"Bearer resource_metadata="https://gate.example/.well-known/oauth-protected-resource/mcp""#
    );
}
