//! The `requestState` that a 2026-07-28 caller carries from a question to its answers.
//!
//! It is sealed with a secret of the store and bound to the owner and to the request it was made for (the page's own
//! advice against replay). A call that still runs here is only referred to. A call that its upstream has ended needs
//! nothing but the upstream's own state, which travels inside: any process with the same store can go on with it.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use taskgate_engine::{Engine, StoreError};
use taskgate_task::{InvalidPayload, Owner, Payload, Timestamp};
use taskgate_wire::{RawObject, RpcError};

use super::Request;
use super::seal::{Nonce, Seal, Unsealable};

/// How long a caller has for its answers.
pub const LIFE: Duration = Duration::from_secs(600);

/// Used states that are remembered. Beyond this many, the ones that expire first are forgotten, and whatever would expire
/// before them counts as expired: less time under a flood, never a second use.
const REMEMBERED: usize = 1 << 17;

/// What a state refers to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refers {
    /// To a call that waits in this process.
    Parked(String),
    /// To nothing here: this is what the upstream wants back.
    Upstream(Payload),
}

/// What is sealed.
#[derive(Serialize, Deserialize)]
struct Content {
    until: Timestamp,
    to: Refers,
}

/// A state that was opened.
#[derive(Debug, PartialEq)]
pub struct Opened {
    /// What it refers to.
    pub refers: Refers,
    nonce: Nonce,
    until: Timestamp,
}

/// Makes the states and opens them again.
pub struct States {
    seal: Seal,
    used: Mutex<Used>,
}

/// The states that were used and have not expired.
#[derive(Default)]
struct Used {
    states: BTreeSet<(Timestamp, Nonce)>,
    /// Whatever expires up to here may be among those that were forgotten.
    forgotten: Option<Timestamp>,
}

impl States {
    /// With the secret that the engine's store keeps for this.
    pub async fn new(engine: &Engine) -> Result<States, StoreError> {
        let secret = engine.store().secret("request-state").await?;
        Ok(States { seal: Seal::new(&secret), used: Mutex::default() })
    }

    /// A state for whoever can name what it is bound to.
    pub fn close(&self, refers: Refers, bound: &Bound, now: Timestamp) -> Result<String, Unsealable> {
        let content = Content { until: now.after(LIFE), to: refers };
        let text = serde_json::to_vec(&content).map_err(|_| Unsealable)?;
        self.seal.close(&text, &bound.0)
    }

    /// What a state refers to. Forged, changed, foreign and expired ones are not told apart.
    pub fn open(&self, state: &str, bound: &Bound, now: Timestamp) -> Result<Opened, RpcError> {
        let open = || {
            let (nonce, text) = self.seal.open(state, &bound.0)?;
            let Content { until, to } = serde_json::from_slice(&text).ok()?;
            (now < until).then_some(Opened { refers: to, nonce, until })
        };
        open().ok_or_else(unknown_state)
    }

    /// Uses a state up: work begins, and must not begin a second time with it.
    pub fn use_up(&self, opened: &Opened, now: Timestamp) -> Result<(), RpcError> {
        let mut used = self.used.lock();
        while used.states.first().is_some_and(|(until, _)| *until <= now) {
            used.states.pop_first();
        }
        let forgotten = used.forgotten.is_some_and(|forgotten| opened.until <= forgotten);
        if forgotten || !used.states.insert((opened.until, opened.nonce)) {
            return Err(unknown_state());
        }
        if used.states.len() > REMEMBERED {
            used.forgotten = used.states.pop_first().map(|(until, _)| until);
        }
        Ok(())
    }
}

/// What a state is bound to: the owner, the upstream, and the parts of the request that say what is done.
pub struct Bound(Vec<u8>);

impl Bound {
    /// To this request of this owner.
    pub fn to(owner: &Owner, upstream: &str, request: &Request<'_>) -> Bound {
        #[derive(Serialize)]
        struct Names<'a>(&'a str, &'a str, &'a str, Option<&'a str>, Option<&'a str>, Option<&'a RawValue>);
        let (name, uri) = (request.params.name().ok(), request.params.uri().ok());
        let names = Names(
            owner.as_str(),
            upstream,
            request.method,
            name.as_deref(),
            uri.as_deref(),
            request.params.arguments(),
        );
        // Strings and raw JSON always serialize.
        Bound(serde_json::to_vec(&names).unwrap_or_default())
    }
}

/// An object with another `requestState` and everything else as it was.
pub fn replaced(object: &Payload, state: Box<RawValue>) -> Result<Payload, InvalidPayload> {
    let mut object = RawObject::parse(object.as_str())?;
    object.set("requestState", state);
    object.to_payload()
}

/// The one error for a state that opens nothing.
pub fn unknown_state() -> RpcError {
    RpcError::invalid_params("Unknown or expired requestState for this request")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states() -> States {
        States { seal: Seal::new(&[1; 32]), used: Mutex::default() }
    }

    fn bound() -> Bound {
        Bound(b"this".to_vec())
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn a_state_lives_for_ten_minutes() {
        let (states, bound) = (states(), bound());
        let refers = Refers::Upstream(Payload::parse(r#"{"any":[1.0,"\u00e9"]}"#.to_owned()).expect("JSON"));
        let state = states.close(refers.clone(), &bound, at(0)).expect("sealed");
        for fine in [0, 1, 599] {
            assert_eq!(states.open(&state, &bound, at(fine)).map(|opened| opened.refers), Ok(refers.clone()));
        }
        for late in [600, 601, 1_000_000] {
            assert_eq!(states.open(&state, &bound, at(late)), Err(unknown_state()));
        }
    }

    #[test]
    fn a_state_is_used_once_even_when_more_are_used_than_remembered() {
        let states = states();
        let opened = |second: i64, number: usize| {
            let mut nonce = Nonce::default();
            nonce[..8].copy_from_slice(&number.to_be_bytes());
            Opened { refers: Refers::Parked(String::new()), nonce, until: at(second) }
        };
        let all: Vec<Opened> =
            (0..REMEMBERED + 100).map(|number| opened(600 + (number / 1000) as i64, number)).collect();
        for one in &all {
            assert_eq!(states.use_up(one, at(0)), Ok(()));
        }
        for one in &all {
            assert_eq!(states.use_up(one, at(0)), Err(unknown_state()));
        }
        assert!(states.used.lock().states.len() <= REMEMBERED);
        // What has expired needs no place.
        assert_eq!(states.use_up(&opened(5000, 1), at(4000)), Ok(()));
        assert_eq!(states.used.lock().states.len(), 1);
    }
}
