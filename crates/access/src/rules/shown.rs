use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Rules;
use crate::identity::Identity;
use crate::rights::Rights;

/// What a caller has shown besides who it is, as far as rules look at it. It is kept with work that may be begun again later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Its scopes, with those that they include; `None` if they are not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scopes: Option<BTreeSet<String>>,
    /// Its claims, with `null` for those that it does not have. What is not there is not known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub claims: BTreeMap<String, Value>,
}

impl Shown {
    /// What a caller shows, as far as these rules look at it; `None` is one that need show nothing.
    pub fn by(identity: Option<&Identity>, rules: &Rules, rights: &Rights) -> Shown {
        if !rules.look_at_what_is_shown() {
            return Shown::default();
        }
        let scopes = identity.map(|identity| rights.all_of(identity)).unwrap_or_default();
        let claim = |name: &str| {
            let value = identity.and_then(|identity| find(&identity.claims, name));
            (name.to_owned(), value.cloned().unwrap_or(Value::Null))
        };
        Shown {
            scopes: Some(scopes.into_iter().map(str::to_owned).collect()),
            claims: rules.claims().map(claim).collect(),
        }
    }

    /// What a claim is in words, each of which a rule may mean; `None` if the claim is not known.
    pub(super) fn words(&self, claim: &str) -> Option<Vec<String>> {
        let word = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        };
        // What is in it nobody has said in words, and so it is not known.
        let is_odd = |value: &Value| matches!(value, Value::Array(_) | Value::Object(_));
        match self.claims.get(claim)? {
            Value::Object(_) => None,
            Value::Array(values) if values.iter().any(is_odd) => None,
            Value::Array(values) => Some(values.iter().filter_map(word).collect()),
            value => Some(word(value).into_iter().collect()),
        }
    }
}

/// A claim by its name, or by a path to it (RFC 6901), as some issuers nest them: `/realm_access/roles`.
fn find<'a>(claims: &'a serde_json::Map<String, Value>, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let mut steps =
            name.strip_prefix('/')?.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
        let first = claims.get(&steps.next()?)?;
        steps.try_fold(first, |value, step| value.get(step))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_found_by_its_name_or_a_path() {
        let claims = serde_json::json!({"a/b": 1, "/a": 2, "a": {"b": ["x"], "c/d": {"e": 3}}});
        let claims = claims.as_object().expect("claims");
        let found = |name: &str| find(claims, name).map(Value::to_string);
        for (name, value) in
            [("a/b", "1"), ("/a", "2"), ("/a/b", "[\"x\"]"), ("/a/c~1d/e", "3"), ("/a~1b", "1")]
        {
            assert_eq!(found(name).as_deref(), Some(value), "{name}");
        }
        for name in ["b", "/", "", "/a/b/x", "a/b/c"] {
            assert_eq!(found(name), None, "{name}");
        }
    }
}
