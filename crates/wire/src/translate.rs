//! What one era demands of an answer and the other does not know: added or taken away where they meet.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use taskgate_task::{InvalidPayload, Payload};

use crate::jsonrpc::{ErrorCode, RpcError};
use crate::meta::Capabilities;
use crate::method;
use crate::raw::RawObject;

/// "Resource not found" up to 2025-11-25; -32602 says it since.
const OLD_NOT_FOUND: i64 = -32002;
/// "URL elicitation required", which only 2025-11-25 has.
const URL_ELICITATION_REQUIRED: i64 = -32042;
/// What 2026-07-28 demands of results that may be kept, and what is said where the server says nothing: do not.
const CACHE_HINTS: [(&str, &str); 2] = [("ttlMs", "0"), ("cacheScope", "\"private\"")];

/// Whether the result of a method may be kept (2026-07-28, caching).
pub fn is_cacheable(method: &str) -> bool {
    matches!(
        method,
        method::DISCOVER
            | method::TOOLS_LIST
            | method::PROMPTS_LIST
            | method::RESOURCES_LIST
            | method::TEMPLATES_LIST
            | method::RESOURCES_READ
    )
}

/// The code of an error object; `None` if it has no whole number there.
pub fn code_of(error: &Payload) -> Option<i64> {
    #[derive(Deserialize)]
    struct Code {
        code: i64,
    }
    serde_json::from_str::<Code>(error.as_str()).ok().map(|error| error.code)
}

/// Adds the caching hints that 2026-07-28 demands, where they are missing. Questions carry none.
pub fn with_cache_hints(method: &str, result: Payload) -> Payload {
    if !is_cacheable(method) {
        return result;
    }
    let edit = || -> Result<Option<Payload>, InvalidPayload> {
        let mut object = RawObject::parse(result.as_str())?;
        let complete = object.get("resultType").is_none_or(|kind| kind.get() == "\"complete\"");
        let missing: Vec<_> =
            CACHE_HINTS.into_iter().filter(|(name, _)| object.get(name).is_none()).collect();
        if !complete || missing.is_empty() {
            return Ok(None);
        }
        for (name, value) in missing {
            object.set(name, serde_json::from_str(value)?);
        }
        object.to_payload().map(Some)
    };
    edit().ok().flatten().unwrap_or(result)
}

/// Takes away the caching hints of 2026-07-28, which mean nothing to earlier readers.
pub fn without_cache_hints(method: &str, result: Payload) -> Payload {
    if !is_cacheable(method) || !CACHE_HINTS.iter().any(|(name, _)| result.as_str().contains(name)) {
        return result;
    }
    let edit = || {
        let mut object = RawObject::parse(result.as_str())?;
        CACHE_HINTS.iter().for_each(|(name, _)| object.remove(name));
        object.to_payload()
    };
    edit().unwrap_or(result)
}

/// An error of a 2026-07-28 server for an earlier reader. Reading something that does not exist has a code of its own
/// there; on any other request -32602 means the same in both.
pub fn error_for_session(method: &str, error: Payload) -> Payload {
    let about_a_resource = matches!(method, method::RESOURCES_READ | method::SUBSCRIBE);
    if about_a_resource && code_of(&error) == Some(ErrorCode::InvalidParams.number().into()) {
        return with_code(&error, OLD_NOT_FOUND).unwrap_or(error);
    }
    error
}

/// An error of an earlier server for a reader of 2026-07-28, where codes of earlier versions must not be used any more:
/// what it is answered with instead.
///
/// An error that asks the user to visit a URL becomes a question that does: the reader calls again afterwards, as it
/// would have after the error.
pub fn error_for_stateless(error: Payload, declared: Capabilities) -> Result<Payload, Payload> {
    match code_of(&error) {
        Some(OLD_NOT_FOUND) => {
            Err(with_code(&error, ErrorCode::InvalidParams.number().into()).unwrap_or(error))
        }
        Some(URL_ELICITATION_REQUIRED) if !declared.elicitation_url => {
            let message = "Missing required client capability: the server asks the user to visit a URL";
            Err(RpcError::new(ErrorCode::MissingRequiredClientCapability, message)
                .with_data(&json!({ "requiredCapabilities": { "elicitation": { "url": {} } } }))
                .to_payload())
        }
        Some(URL_ELICITATION_REQUIRED) => match visits(&error) {
            Ok(question) => Ok(question),
            Err(_) => Err(with_code(&error, ErrorCode::InternalError.number().into()).unwrap_or(error)),
        },
        _ => Err(error),
    }
}

fn with_code(error: &Payload, code: i64) -> Option<Payload> {
    let mut object = RawObject::parse(error.as_str()).ok()?;
    object.set("code", serde_json::value::to_raw_value(&code).ok()?);
    object.to_payload().ok()
}

/// The `InputRequiredResult` for the elicitations an error lists.
fn visits(error: &Payload) -> Result<Payload, InvalidPayload> {
    #[derive(Deserialize)]
    struct Listed<'a> {
        #[serde(borrow)]
        data: Data<'a>,
    }
    #[derive(Deserialize)]
    struct Data<'a> {
        #[serde(borrow)]
        elicitations: Vec<&'a RawValue>,
    }
    let listed: Listed = serde_json::from_str(error.as_str())?;
    let mut requests = RawObject::default();
    for (index, elicitation) in listed.data.elicitations.into_iter().enumerate() {
        let mut params = RawObject::parse(elicitation.get())?;
        // 2026-07-28 has no such id: calling again shows how it went.
        params.remove("elicitationId");
        let mut request = RawObject::default();
        request.set("method", serde_json::value::to_raw_value(method::ELICIT)?);
        request.set("params", params.to_raw()?);
        requests.push(format!("elicitation-{}", index + 1), request.to_raw()?);
    }
    let mut result = RawObject::default();
    result.set("resultType", serde_json::value::to_raw_value("input_required")?);
    result.set("inputRequests", requests.to_raw()?);
    result.to_payload()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(text: &str) -> Payload {
        Payload::parse(text.to_owned()).expect("JSON")
    }

    #[test]
    fn hints_come_and_go_and_nothing_else_changes() {
        let bare = r#"{"prompts":[ 1.0 ],"x":1e3}"#;
        let hinted = r#"{"prompts":[ 1.0 ],"x":1e3,"ttlMs":0,"cacheScope":"private"}"#;
        assert_eq!(with_cache_hints(method::PROMPTS_LIST, payload(bare)).as_str(), hinted);
        assert_eq!(without_cache_hints(method::PROMPTS_LIST, payload(hinted)).as_str(), bare);
        for (method, same) in [
            (method::PROMPTS_GET, bare),
            (method::PROMPTS_LIST, r#"{"ttlMs":60000,"cacheScope":"public"}"#),
            (method::RESOURCES_READ, r#"{"resultType":"input_required","inputRequests":{}}"#),
            (method::RESOURCES_READ, "[1]"),
        ] {
            assert_eq!(with_cache_hints(method, payload(same)).as_str(), same);
        }
        assert_eq!(without_cache_hints(method::PROMPTS_GET, payload(hinted)).as_str(), hinted);
    }

    #[test]
    fn renumbered_codes_are_translated_both_ways() {
        let old = r#"{"code":-32002,"message":"gone","data":{"uri":"x://1"}}"#;
        let new = r#"{"code":-32602,"message":"gone","data":{"uri":"x://1"}}"#;
        assert_eq!(error_for_session(method::RESOURCES_READ, payload(new)).as_str(), old);
        assert_eq!(error_for_session(method::PROMPTS_GET, payload(new)).as_str(), new);
        let stateless = |text: &str| error_for_stateless(payload(text), Capabilities::default());
        assert_eq!(stateless(old).expect_err("an error").as_str(), new);
        assert_eq!(stateless(new).expect_err("an error").as_str(), new);
        assert_eq!(stateless("7").expect_err("an error").as_str(), "7");
    }

    #[test]
    fn an_error_that_asks_for_a_visit_becomes_a_question() {
        let error = r#"{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://a/?n=1","message":"Go"}]}}"#;
        let able = Capabilities { elicitation_url: true, ..Capabilities::default() };
        assert_eq!(
            error_for_stateless(payload(error), able).expect("a question").as_str(),
            r#"{"resultType":"input_required","inputRequests":{"elicitation-1":{"method":"elicitation/create","params":{"mode":"url","url":"https://a/?n=1","message":"Go"}}}}"#
        );
        let refused = error_for_stateless(payload(error), Capabilities::default()).expect_err("an error");
        assert_eq!(code_of(&refused), Some(-32021));
        let broken = error_for_stateless(payload(r#"{"code":-32042,"message":"m"}"#), able);
        assert_eq!(broken.expect_err("an error").as_str(), r#"{"code":-32603,"message":"m"}"#);
    }
}
