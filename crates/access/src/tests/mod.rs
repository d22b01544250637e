//! Tokens of every kind, made here, and what becomes of them.

mod asked;
mod keys;
mod signed;
mod signer;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use taskgate_reach::Reach;

use crate::clock::now;
use crate::fetch::{Ask, Fetch};
use crate::{Access, AccessConfig, Identity, Issuer, Refusal, Resource, Rights};

/// This server.
const RESOURCE: &str = "https://gate.example/mcp";
/// Who gives out tokens.
const ISSUER: &str = "https://login.example";
/// Where its metadata lies.
const METADATA: &str = "https://login.example/.well-known/oauth-authorization-server";
/// Where its keys lie.
const KEYS: &str = "https://login.example/keys";

/// What can be fetched, and what has been.
#[derive(Clone, Default)]
struct Net(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    documents: HashMap<String, Value>,
    asked: Vec<String>,
    /// What was fetched at a place that only an issuer names.
    named: Vec<String>,
    forms: Vec<String>,
}

impl Net {
    /// With an issuer that has these keys.
    fn with_keys(keys: &[Value]) -> Net {
        let net = Net::default();
        net.put(METADATA, json!({"issuer": ISSUER, "jwks_uri": KEYS}));
        net.put(KEYS, json!({"keys": keys}));
        net
    }

    fn put(&self, url: &str, document: Value) {
        self.0.lock().documents.insert(url.to_owned(), document);
    }

    fn remove(&self, url: &str) {
        self.0.lock().documents.remove(url);
    }

    /// How often this was fetched.
    fn count(&self, url: &str) -> usize {
        self.0.lock().asked.iter().filter(|asked| *asked == url).count()
    }

    fn fetch(&self) -> Fetch {
        let net = self.clone();
        Arc::new(move |ask: Ask| {
            let net = net.clone();
            Box::pin(async move {
                // As a request would, it lets others go on.
                tokio::task::yield_now().await;
                let mut state = net.0.lock();
                state.asked.push(ask.url.clone());
                state.named.extend((!ask.is_written).then(|| ask.url.clone()));
                state.forms.extend(ask.form.map(|form| form.body));
                state
                    .documents
                    .get(&ask.url)
                    .map(|found| found.to_string().into_bytes())
                    .ok_or("status 404".to_owned())
            })
        })
    }
}

/// A server that takes tokens of these issuers.
fn config(issuers: Vec<Issuer>) -> AccessConfig {
    let resource = Resource::parse(RESOURCE).expect("an address");
    AccessConfig {
        resource,
        issuers,
        tokens: Vec::new(),
        certificates: None,
        proxy: None,
        rights: Rights::default(),
        reach: Reach::default(),
    }
}

async fn check(access: &Access, token: &str) -> Result<Identity, Refusal> {
    access.check(Some(format!("Bearer {token}").as_bytes())).await
}

/// Claims that are good for a minute.
fn claims() -> Value {
    let now = now();
    json!({"iss": ISSUER, "aud": RESOURCE, "sub": "ann", "client_id": "app", "exp": now + 60.0, "nbf": now - 1.0, "scope": "mcp"})
}

/// The same with other values; `null` takes one away.
fn claims_with(changes: &Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().expect("changes") {
        match value {
            Value::Null => drop(claims.as_object_mut().expect("claims").remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}
