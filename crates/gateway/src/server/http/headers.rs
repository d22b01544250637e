//! Request metadata headers, and their agreement with the body (2026-07-28, "Server Validation").

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::value::{RawValue, to_raw_value};
use taskgate_task::Payload;
use taskgate_wire::header::decode;
use taskgate_wire::tool::ParamHeader;
use taskgate_wire::{ErrorCode, Params, RawObject, RpcError, Version, meta, method};

use crate::server::unsupported_version;

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// `MCP-Protocol-Version`, if present: one that is served, or else -32022. Several that differ say nothing.
pub fn version(headers: &HeaderMap) -> Result<Option<Version>, RpcError> {
    let mut said = None;
    for value in headers.get_all(PROTOCOL_VERSION) {
        let text = String::from_utf8_lossy(value.as_bytes());
        let text = text.trim_matches([' ', '\t']);
        let version = Version::from_wire(text).ok_or_else(|| unsupported_version(text))?;
        if *said.get_or_insert(version) != version {
            return Err(mismatch("MCP-Protocol-Version has several values".to_owned()));
        }
    }
    Ok(said)
}

/// Whether the header names a version that has no sessions.
pub fn is_stateless(headers: &HeaderMap) -> bool {
    matches!(version(headers), Ok(Some(version)) if version.is_stateless())
}

/// `Mcp-Session-Id`, if present and readable.
pub fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID)?.to_str().ok()
}

/// Puts another name into the place of `Mcp-Session-Id`.
pub fn rename_session(headers: &mut HeaderMap, name: HeaderValue) {
    headers.insert(SESSION_ID, name);
}

/// `Last-Event-ID`, if present and not empty; what is not readable is no event of ours either.
pub fn last_event_id(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty())?;
    Some(value.to_str().unwrap_or("?"))
}

/// A call's params with the key of `Idempotency-Key` in their `_meta`, where callers of any transport have it. Clients and
/// proxies that know HTTP know this header (RFC draft "The Idempotency-Key HTTP Header Field"): its value is a quoted string;
/// a bare one is taken as it is.
pub fn with_idempotency_key(
    headers: &HeaderMap,
    name: &str,
    params: Option<Payload>,
) -> Result<Option<Payload>, RpcError> {
    if name != method::TOOLS_CALL {
        return Ok(params);
    }
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(params) };
    if values.next().is_some() {
        return Err(mismatch("Idempotency-Key has several values".to_owned()));
    }
    let text = value.to_str().map_err(|_| mismatch("Idempotency-Key is not ASCII text".to_owned()))?;
    let text = text.trim_matches([' ', '\t']);
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let key = quoted.map_or_else(|| text.to_owned(), |text| text.replace("\\\"", "\"").replace("\\\\", "\\"));
    let internal = |error: &dyn std::fmt::Display| RpcError::internal(error.to_string());
    let raw = to_raw_value(&key).map_err(|error| internal(&error))?;
    let known = Params::parse(params.as_ref())?.meta().idempotency_key.map(RawValue::get);
    match known.map(serde_json::from_str::<String>) {
        Some(Ok(known)) if known == key => return Ok(params),
        Some(_) => return Err(mismatch("Idempotency-Key does not match the body".to_owned())),
        None => {}
    }
    let edited = meta::edit(params.as_ref(), |meta| {
        meta.set(meta::IDEMPOTENCY_KEY, raw);
        Ok(())
    });
    edited.map(Some).map_err(|error| internal(&error))
}

/// Whether the caller can read an SSE stream. Callers that say nothing can.
pub fn accepts_stream(headers: &HeaderMap) -> bool {
    let mut any = false;
    for value in headers.get_all(header::ACCEPT) {
        let Ok(value) = value.to_str() else { continue };
        any = true;
        let kinds = value.split(',').map(|kind| kind.split(';').next().unwrap_or("").trim());
        if kinds.into_iter().any(|kind| matches!(kind, "text/event-stream" | "text/*" | "*/*")) {
            return true;
        }
    }
    !any
}

/// The error for a request without the session it needs.
pub fn missing_session() -> RpcError {
    RpcError::new(ErrorCode::InvalidRequest, "Mcp-Session-Id is missing: send initialize first")
}

/// The error for a session that does not exist (any more): the client starts a new one.
pub fn unknown_session() -> RpcError {
    RpcError::new(ErrorCode::InvalidRequest, "Unknown session: it ended or never was; send initialize again")
}

/// Compares the standard headers with the body. `version` is the one in the body's `_meta`.
///
/// A widespread client leaves `Mcp-Name` out on `tasks/*`, so there a missing one is accepted, a wrong one never.
pub fn check(headers: &HeaderMap, name: &str, params: &Params<'_>, version: &str) -> Result<(), RpcError> {
    require(headers, &PROTOCOL_VERSION, "MCP-Protocol-Version", version, false)?;
    require(headers, &METHOD, "Mcp-Method", name, false)?;
    let (want, optional) = match name {
        method::TOOLS_CALL | method::PROMPTS_GET => (params.name().ok(), false),
        method::RESOURCES_READ => (params.uri().ok(), false),
        _ if name.starts_with("tasks/") => (params.task_id().ok(), true),
        _ => return Ok(()),
    };
    match want {
        // Without the member the params are wrong, which is told better further on.
        None => Ok(()),
        Some(want) => require(headers, &NAME, "Mcp-Name", &want, optional),
    }
}

fn require(
    headers: &HeaderMap,
    header: &HeaderName,
    name: &str,
    want: &str,
    optional: bool,
) -> Result<(), RpcError> {
    let mut values = headers.get_all(header).iter();
    let Some(value) = values.next() else {
        return if optional { Ok(()) } else { Err(mismatch(format!("{name} is missing"))) };
    };
    let same = |value: &axum::http::HeaderValue| {
        let Ok(text) = value.to_str() else { return false };
        let text = text.trim_matches([' ', '\t']);
        if *header == NAME { decode(text).is_ok_and(|text| text == want) } else { text == want }
    };
    if same(value) && values.all(same) {
        Ok(())
    } else {
        Err(mismatch(format!("{name} does not match the body")))
    }
}

/// Compares the headers a tool's definition asks for with the arguments.
pub fn check_arguments(
    headers: &HeaderMap,
    wanted: &[ParamHeader],
    params: &Params<'_>,
) -> Result<(), RpcError> {
    for ParamHeader { name, path } in wanted {
        let header = format!("Mcp-Param-{name}");
        let value = params.arguments().and_then(|arguments| at(arguments, path));
        let mut said = headers.get_all(&header).iter().peekable();
        match (said.peek(), value) {
            (None, None) => {}
            (None, Some(_)) => return Err(mismatch(format!("{header} is missing"))),
            (Some(_), None) => return Err(mismatch(format!("{header} has no value in the body"))),
            (Some(_), Some(value)) => {
                let same = |text: &axum::http::HeaderValue| {
                    let text = text.to_str().map(|text| text.trim_matches([' ', '\t']));
                    text.is_ok_and(|text| decode(text).is_ok_and(|text| is_same(&text, &value)))
                };
                // Others may look at any of several, so all must agree.
                if !said.all(same) {
                    return Err(mismatch(format!("{header} does not match the body")));
                }
            }
        }
    }
    Ok(())
}

/// The value at a path of property names; `null` counts as absent.
fn at(root: &RawValue, path: &[String]) -> Option<Box<RawValue>> {
    let mut value = root.to_owned();
    for name in path {
        let object = RawObject::parse(value.get()).ok()?;
        let next = object.get(name)?.to_owned();
        value = next;
    }
    (value.get() != "null").then_some(value)
}

/// Strings as they are, booleans by their word, integers by their number ("42.0 and 42 are considered equal").
fn is_same(header: &str, value: &RawValue) -> bool {
    match value.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str::<String>(value.get()).is_ok_and(|text| text == header),
        Some(b't' | b'f') => value.get() == header,
        _ => {
            // Large whole numbers that differ would be the same as floats.
            if let (Ok(a), Ok(b)) = (value.get().parse::<i128>(), header.parse::<i128>()) {
                return a == b;
            }
            value.get() == header
                || matches!((value.get().parse::<f64>(), header.parse::<f64>()), (Ok(a), Ok(b)) if (a - b).abs() == 0.0)
        }
    }
}

fn mismatch(what: String) -> RpcError {
    RpcError::new(ErrorCode::HeaderMismatch, format!("Header mismatch: {what}"))
}
