//! Questions of a server: what a client must have declared to be asked, and how each generation words them.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use taskgate_task::{InvalidPayload, Payload};

use crate::meta::Capabilities;
use crate::method;
use crate::raw::RawObject;

/// A capability that a question needs and the client did not declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// No elicitation at all.
    Elicitation,
    /// Elicitation, but not by form.
    Form,
    /// Elicitation, but not by URL.
    Url,
    /// Sampling.
    Sampling,
    /// Roots.
    Roots,
}

impl Missing {
    /// The capabilities a client would have to declare, for `data.requiredCapabilities` of -32021.
    pub fn required(self) -> Value {
        match self {
            Missing::Elicitation => json!({ "elicitation": {} }),
            Missing::Form => json!({ "elicitation": { "form": {} } }),
            Missing::Url => json!({ "elicitation": { "url": {} } }),
            Missing::Sampling => json!({ "sampling": {} }),
            Missing::Roots => json!({ "roots": {} }),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Missing::Elicitation => "elicitation",
            Missing::Form => "elicitation by form",
            Missing::Url => "elicitation by URL",
            Missing::Sampling => "sampling",
            Missing::Roots => "roots",
        })
    }
}

impl Capabilities {
    /// Whether a client with these can be asked this question; what is missing otherwise. A question that is not known is the
    /// client's to judge.
    pub fn allow(&self, name: &str, params: Option<&Payload>) -> Result<(), Missing> {
        let url = || params.is_some_and(by_url);
        match name {
            method::ELICIT if url() => self.elicitation_url.then_some(()).ok_or(Missing::Url),
            method::ELICIT if self.elicitation => Ok(()),
            method::ELICIT if self.elicitation_url => Err(Missing::Form),
            method::ELICIT => Err(Missing::Elicitation),
            method::SAMPLE if !self.sampling => Err(Missing::Sampling),
            method::ROOTS_LIST if !self.roots => Err(Missing::Roots),
            _ => Ok(()),
        }
    }
}

/// Whether an elicitation sends its user to a URL.
fn by_url(params: &Payload) -> bool {
    #[derive(Deserialize)]
    struct Mode<'a> {
        #[serde(borrow, default)]
        mode: Option<&'a RawValue>,
    }
    let mode = serde_json::from_str::<Mode>(params.as_str()).ok().and_then(|params| params.mode);
    mode.is_some_and(|mode| mode.get() == "\"url\"")
}

/// The params of a question for a session: 2025-11-25 demands an `elicitationId` of an elicitation by URL, which 2026-07-28
/// took away. `id` makes one.
pub fn for_session(
    name: &str,
    params: Option<Payload>,
    id: impl FnOnce() -> String,
) -> Result<Option<Payload>, InvalidPayload> {
    let Some(asked) = params.as_ref().filter(|params| name == method::ELICIT && by_url(params)) else {
        return Ok(params);
    };
    let mut object = RawObject::parse(asked.as_str())?;
    if object.get("elicitationId").is_some() {
        return Ok(params);
    }
    object.set("elicitationId", serde_json::value::to_raw_value(&id())?);
    object.to_payload().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(text: &str) -> Payload {
        Payload::parse(text.to_owned()).expect("JSON")
    }

    #[test]
    fn each_mode_of_elicitation_must_be_declared() {
        let declared = |text: &str| Capabilities::parse(payload(text).as_raw()).expect("capabilities");
        let (form, bare, url) =
            (payload(r#"{"mode":"form"}"#), payload("{}"), payload(r#"{"mode":"url","url":"https://x"}"#));
        for (capabilities, by_form, by_url) in [
            ("{}", Err(Missing::Elicitation), Err(Missing::Url)),
            (r#"{"elicitation":{}}"#, Ok(()), Err(Missing::Url)),
            (r#"{"elicitation":{"form":{}}}"#, Ok(()), Err(Missing::Url)),
            (r#"{"elicitation":{"url":{}}}"#, Err(Missing::Form), Ok(())),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, Ok(()), Ok(())),
        ] {
            let able = declared(capabilities);
            for params in [None, Some(&form), Some(&bare)] {
                assert_eq!(able.allow(method::ELICIT, params), by_form, "{capabilities}");
            }
            assert_eq!(able.allow(method::ELICIT, Some(&url)), by_url, "{capabilities}");
        }
        assert_eq!(declared("{}").allow(method::SAMPLE, None), Err(Missing::Sampling));
        assert_eq!(declared("{}").allow(method::ROOTS_LIST, None), Err(Missing::Roots));
        assert_eq!(declared("{}").allow("x/new", None), Ok(()));
    }

    #[test]
    fn only_an_elicitation_by_url_gets_an_id() {
        let word = |name, text: &str| {
            let worded = for_session(name, Some(payload(text)), || "made".to_owned()).expect("an object");
            worded.expect("params").as_str().to_owned()
        };
        let url = r#"{"mode":"url","url":"https://x","n":1.0}"#;
        assert_eq!(
            word(method::ELICIT, url),
            r#"{"mode":"url","url":"https://x","n":1.0,"elicitationId":"made"}"#
        );
        for same in [r#"{ "mode":"form" }"#, r#"{"mode":"url","elicitationId":"own"}"#, r#"{"mode":7}"#] {
            assert_eq!(word(method::ELICIT, same), same);
        }
        assert_eq!(word(method::SAMPLE, url), url);
    }
}
