use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::clock::now;
use crate::config::Issuer;
use crate::refusal::Refusal;

/// Who a caller is, as far as it has been shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A name that nobody else has: issuer, subject and client of its token, or the name of a token in the configuration. Tasks belong to
    /// it, so it must be the same for every token of the same caller.
    pub owner: String,
    /// What its token allows.
    pub scopes: BTreeSet<String>,
    /// Until when it has shown that, counted from 1970, the leeway for its issuer's clock included; `None` for a token without end.
    pub expires: Option<Duration>,
    /// What else its issuer says of it; nothing for a token in the configuration.
    pub claims: Map<String, Value>,
}

impl Identity {
    /// Whoever an issuer's claims speak of.
    pub(crate) fn of(issuer: &Issuer, claims: Map<String, Value>) -> Result<Identity, Refusal> {
        let said = |name: &str| claims.get(name).and_then(Value::as_str).filter(|said| !said.is_empty());
        let client = said("client_id").or(said("azp")).unwrap_or_default();
        // Tokens that a client got for itself need have no subject of their own.
        let subject = said("sub").unwrap_or(client);
        if subject.is_empty() {
            return Err(Refusal::NoSubject);
        }
        // As JSON, so that no choice of names makes one caller another.
        let owner = format!("oauth {}", json!([issuer.name, subject, client]));
        let scopes =
            ["scope", "scp"].into_iter().filter_map(|name| claims.get(name)).flat_map(words).collect();
        let ends = claims.get("exp").and_then(Value::as_f64);
        let expires = ends.map(|ends| Duration::try_from_secs_f64(ends).unwrap_or(Duration::MAX));
        let expires = expires.map(|expires| expires.saturating_add(issuer.leeway));
        Ok(Identity { owner, scopes, expires, claims })
    }

    /// Issuer, subject and client of an owner that is known by a token of an issuer; `None` for any other owner.
    pub fn parts(owner: &str) -> Option<[String; 3]> {
        serde_json::from_str(owner.strip_prefix("oauth ")?).ok()
    }

    /// The owner of what is done with the token of this name in the configuration.
    pub fn owner_of_token(name: &str) -> String {
        format!("token {name}")
    }

    /// Whoever the proxy says is calling.
    pub(crate) fn vouched(name: &str, scopes: &[String]) -> Identity {
        Identity { owner: format!("proxy {name}"), ..Identity::named(name, scopes) }
    }

    /// Whoever shows a token of this name in the configuration.
    pub(crate) fn named(name: &str, scopes: &[String]) -> Identity {
        let scopes = scopes.iter().cloned().collect();
        Identity { owner: Identity::owner_of_token(name), scopes, expires: None, claims: Map::new() }
    }

    /// Whoever has shown a certificate with this name, which ends then.
    pub(crate) fn certified(name: &str, until: Duration, scopes: &[String]) -> Identity {
        Identity { owner: format!("mtls {name}"), expires: Some(until), ..Identity::named(name, scopes) }
    }

    /// How long it still counts; `None` if that has no end.
    pub fn lasts(&self) -> Option<Duration> {
        // Longer than any connection, and what a timer can hold.
        const LONGEST: Duration = Duration::from_secs(365 * 86_400);
        let now = Duration::try_from_secs_f64(now()).unwrap_or_default();
        self.expires.map(|expires| expires.saturating_sub(now).min(LONGEST))
    }
}

/// The words of a claim that is a text with blanks (RFC 8693, 4.2) or, with some issuers, an array.
fn words(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => text.split_ascii_whitespace().map(str::to_owned).collect(),
        Value::Array(words) => words.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(claims: Value) -> Result<Identity, Refusal> {
        let Value::Object(claims) = claims else { panic!("no claims") };
        Identity::of(&Issuer::new("https://i"), claims)
    }

    #[test]
    fn an_owner_is_issuer_subject_and_client() {
        let owners: Vec<String> = [
            json!({"sub": "s", "client_id": "c"}),
            json!({"sub": "s", "azp": "d"}),
            json!({"sub": "s"}),
            json!({"client_id": "c"}),
            json!({"sub": "s\",\"c"}),
        ]
        .into_iter()
        .map(|claims| of(claims).expect("someone").owner)
        .collect();
        assert_eq!(
            owners,
            [
                r#"oauth ["https://i","s","c"]"#,
                r#"oauth ["https://i","s","d"]"#,
                r#"oauth ["https://i","s",""]"#,
                r#"oauth ["https://i","c","c"]"#,
                r#"oauth ["https://i","s\",\"c",""]"#,
            ]
        );
        assert_eq!(Identity::parts(&owners[0]), Some(["https://i", "s", "c"].map(str::to_owned)));
        assert_eq!(Identity::parts(&owners[4]), Some(["https://i", "s\",\"c", ""].map(str::to_owned)));
        for other in ["token a", "local", "oauth a", "oauth [\"a\"]"] {
            assert_eq!(Identity::parts(other), None, "{other}");
        }
        for nobody in [json!({}), json!({"sub": ""}), json!({"sub": 7})] {
            assert_eq!(of(nobody), Err(Refusal::NoSubject));
        }
    }

    #[test]
    fn scopes_are_read_however_issuers_write_them() {
        for claims in [json!({"scope": "a b"}), json!({"scp": ["a", "b"]}), json!({"scope": "a", "scp": "b"})]
        {
            let mut claims = claims;
            claims["sub"] = json!("s");
            let scopes: Vec<String> = of(claims).expect("someone").scopes.into_iter().collect();
            assert_eq!(scopes, ["a", "b"]);
        }
    }
}
