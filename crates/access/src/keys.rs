//! The keys of an issuer: fetched when they are needed, kept, and looked for again as far as that is no burden to anybody.

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::{Algorithm, DecodingKey};
use parking_lot::Mutex;
use reqwest::Url;
use serde::Deserialize;
use serde_json::value::RawValue;
use taskgate_reach::Origin;
use tokio::time::Instant;

use crate::config::{Issuer, KeySource};
use crate::fetch::{Ask, Fetch, may_ask};
use crate::refusal::Refusal;

/// After how long keys are looked for again, so that one that its issuer has withdrawn is not believed for ever.
pub(crate) const FRESH: Duration = Duration::from_secs(600);

/// How long after one look the next one may be, whatever tokens come: a flood of unknown keys must not become one of requests.
pub(crate) const BETWEEN: Duration = Duration::from_secs(10);

/// How many keys are taken from an issuer. Those that are changed monthly have a handful.
const MOST: usize = 64;

/// The keys of one issuer.
pub struct Keys {
    source: KeySource,
    name: String,
    plain_http: bool,
    fetch: Fetch,
    state: Mutex<State>,
    /// Held by whoever looks; others that need the answer wait for it.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    keys: Arc<Vec<Key>>,
    /// When they came; `None` if there have never been any.
    came: Option<Instant>,
    /// When they were last looked for.
    looked: Option<Instant>,
}

/// A key as it is used.
pub struct Key {
    pub id: Option<String>,
    /// The algorithms it is for: the one it names, or else those of its kind.
    pub algorithms: Vec<Algorithm>,
    pub key: DecodingKey,
}

#[derive(Deserialize)]
struct Set<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

/// What is needed of a key (RFC 7517, RFC 7518).
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// What an issuer says of itself (RFC 8414, section 2).
#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

impl Keys {
    pub fn new(issuer: &Issuer, source: KeySource, fetch: Fetch) -> Arc<Keys> {
        Arc::new(Keys {
            source,
            name: issuer.name.clone(),
            plain_http: issuer.plain_http,
            fetch,
            state: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
        })
    }

    /// The keys that a token may be signed with: those of this id, or all where it names none. Empty if its issuer has no such key.
    ///
    /// # Errors
    ///
    /// There have never been any keys, and there are none to be had now.
    pub async fn find(self: &Arc<Self>, id: Option<&str>, algorithm: Algorithm) -> Result<Found, Refusal> {
        let (found, age) = self.known(id, algorithm);
        match age {
            Some(age) if !found.is_empty() => {
                if age >= FRESH && self.may_look() {
                    // Nobody waits for it: the issuer may be down, and the keys are good until it says otherwise.
                    let keys = self.clone();
                    tokio::spawn(async move { keys.look(None).await });
                }
                return Ok(found);
            }
            _ => {}
        }
        let before = self.state.lock().looked;
        let keys = self.clone();
        // On its own: should this caller go away, others still get what it waited for.
        let _ = tokio::spawn(async move { keys.look(before).await }).await;
        match self.known(id, algorithm) {
            (_, None) => Err(Refusal::Unavailable("the keys of its issuer cannot be had")),
            (found, Some(_)) => Ok(found),
        }
    }

    fn known(&self, id: Option<&str>, algorithm: Algorithm) -> (Found, Option<Duration>) {
        let state = self.state.lock();
        let is_meant = |key: &Key| {
            key.algorithms.contains(&algorithm) && id.is_none_or(|id| key.id.as_deref() == Some(id))
        };
        let places = state.keys.iter().enumerate().filter(|(_, key)| is_meant(key)).map(|(place, _)| place);
        let found = Found { places: places.collect(), keys: state.keys.clone() };
        (found, state.came.map(|came| came.elapsed()))
    }

    fn may_look(&self) -> bool {
        self.state.lock().looked.is_none_or(|looked| looked.elapsed() >= BETWEEN)
    }

    /// Looks for keys, unless somebody has since `before`, or has just.
    async fn look(&self, before: Option<Instant>) {
        let _alone = self.looking.lock().await;
        if !self.may_look() || (before.is_some() && self.state.lock().looked != before) {
            return;
        }
        self.state.lock().looked = Some(Instant::now());
        match self.fetch().await {
            Ok(keys) => {
                tracing::debug!(issuer = self.name, keys = keys.len(), "the keys of an issuer");
                let mut state = self.state.lock();
                (state.keys, state.came) = (Arc::new(keys), Some(Instant::now()));
            }
            Err(why) => tracing::warn!(issuer = self.name, why, "the keys of an issuer cannot be had"),
        }
    }

    async fn fetch(&self) -> Result<Vec<Key>, String> {
        let (url, is_written) = match &self.source {
            KeySource::At(url) => (url.clone(), true),
            KeySource::Discovered => {
                let url = self.discover().await?;
                let is_own = origin(&url).is_some_and(|named| origin(&self.name) == Some(named));
                (url, is_own)
            }
        };
        may_ask(&url, self.plain_http).map_err(|why| format!("{url} {why}"))?;
        let body = (self.fetch)(Ask { url: url.clone(), is_written, form: None })
            .await
            .map_err(|why| format!("{url}: {why}"))?;
        read(&body).map_err(|why| format!("{url}: {why}"))
    }

    /// Asks the issuer at all the places where its metadata may lie (MCP, "Authorization Server Metadata Discovery").
    async fn discover(&self) -> Result<String, String> {
        let url = Url::parse(&self.name).map_err(|error| format!("{} is no URL: {error}", self.name))?;
        let (origin, path) = (url.origin().ascii_serialization(), url.path().trim_end_matches('/'));
        let mut places = vec![
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{origin}/.well-known/openid-configuration{path}"),
        ];
        if !path.is_empty() {
            places.push(format!("{origin}{path}/.well-known/openid-configuration"));
        }
        let mut wrong = String::new();
        for url in places {
            match (self.fetch)(Ask { url: url.clone(), is_written: true, form: None }).await {
                Ok(body) => match serde_json::from_slice::<Metadata>(&body) {
                    // "If these values are not identical, the data contained in the response MUST NOT be used" (RFC 8414, 3.3).
                    Ok(said) if said.issuer == self.name => return Ok(said.jwks_uri),
                    Ok(_) => wrong = format!("{url}: it is the metadata of another issuer"),
                    Err(error) => wrong = format!("{url}: it is no metadata with a jwks_uri: {error}"),
                },
                Err(why) => wrong = format!("{url}: {why}"),
            }
        }
        Err(wrong)
    }
}

/// The host and port of an address.
fn origin(url: &str) -> Option<Origin> {
    Origin::of(&Url::parse(url).ok()?)
}

/// Keys that fit a token.
pub struct Found {
    places: Vec<usize>,
    keys: Arc<Vec<Key>>,
}

impl Found {
    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.places.iter().filter_map(|place| self.keys.get(*place))
    }
}

/// Reads a set of keys. Those that are not for signatures or of an unknown kind are passed over (RFC 7517, section 5).
fn read(body: &[u8]) -> Result<Vec<Key>, String> {
    let set: Set<'_> =
        serde_json::from_slice(body).map_err(|error| format!("it is no set of keys: {error}"))?;
    if set.keys.len() > MOST {
        return Err(format!("it has more than {MOST} keys"));
    }
    Ok(set.keys.iter().filter_map(|raw| key(&serde_json::from_str(raw.get()).ok()?)).collect())
}

fn key(jwk: &Jwk) -> Option<Key> {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    if jwk.usage.as_deref().is_some_and(|usage| usage != "sig") {
        return None;
    }
    let (key, of_kind) = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => {
            let key = DecodingKey::from_rsa_components(jwk.n.as_deref()?, jwk.e.as_deref()?);
            (key, vec![RS256, RS384, RS512, PS256, PS384, PS512])
        }
        ("EC", Some("P-256")) => {
            (DecodingKey::from_ec_components(jwk.x.as_deref()?, jwk.y.as_deref()?), vec![ES256])
        }
        ("EC", Some("P-384")) => {
            (DecodingKey::from_ec_components(jwk.x.as_deref()?, jwk.y.as_deref()?), vec![ES384])
        }
        ("OKP", Some("Ed25519")) => (DecodingKey::from_ed_components(jwk.x.as_deref()?), vec![EdDSA]),
        // Shared secrets above all.
        _ => return None,
    };
    let algorithms = match jwk.alg.as_deref() {
        // Both names are in use (RFC 9864).
        Some("Ed25519") => vec![EdDSA],
        Some(named) => vec![named.parse().ok()?],
        None => of_kind.clone(),
    };
    let fits = algorithms.iter().all(|algorithm| of_kind.contains(algorithm));
    Some(Key { id: jwk.kid.clone(), algorithms, key: key.ok()? }).filter(|_| fits)
}
