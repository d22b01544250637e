//! What a request says of itself in its headers.

use std::collections::HashMap;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;
use taskgate_task::Payload;
use taskgate_wire::header::encode;
use taskgate_wire::tool::{ParamHeader, ToolFacts, check_mirrored};
use taskgate_wire::{RawObject, Version, meta, method};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The version that a request says it is made in, if it has no session (2026-07-28 and later).
pub(super) fn stateless_version(params: Option<&Payload>) -> Option<Version> {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(rename = "_meta")]
        meta: Said,
    }
    #[derive(Deserialize)]
    struct Said {
        #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
        version: String,
    }
    // Looking at the text is cheaper than reading it, and requests with a session may be long.
    let params = params.filter(|params| params.as_str().contains(meta::PROTOCOL_VERSION))?;
    let said: Shape = serde_json::from_str(params.as_str()).ok()?;
    Version::from_wire(&said.meta.version).filter(|version| version.is_stateless())
}

/// The header with the version.
pub(super) fn version(headers: &mut HeaderMap, version: &str) {
    if let Ok(value) = HeaderValue::from_str(version) {
        headers.insert(PROTOCOL_VERSION, value);
    }
}

/// The headers that repeat what the body says (2026-07-28, "Request Metadata").
pub(super) fn mirror(headers: &mut HeaderMap, name: &str, params: Option<&Payload>, tools: &ToolHeaders) {
    let mut set = |header: HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_str(&encode(text)) {
            headers.insert(header, value);
        }
    };
    set(METHOD, name);
    let Some(params) = params.and_then(|params| RawObject::parse(params.as_str()).ok()) else { return };
    let text =
        |member: &str| params.get(member).and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let subject = match name {
        method::TOOLS_CALL | method::PROMPTS_GET => text("name"),
        method::RESOURCES_READ => text("uri"),
        _ if name.starts_with("tasks/") => text("taskId"),
        _ => None,
    };
    let Some(subject) = subject else { return };
    set(NAME, &subject);
    if name != method::TOOLS_CALL {
        return;
    }
    for ParamHeader { name, path } in tools.of(&subject) {
        let value = params.get("arguments").and_then(|arguments| at(arguments, path));
        let name = HeaderName::from_bytes(format!("mcp-param-{name}").as_bytes());
        if let (Some(value), Ok(name)) = (value, name) {
            set(name, &value);
        }
    }
}

/// The value at a path of property names, as a header carries it. `null` counts as absent, and what is no single value has
/// no header.
fn at(root: &RawValue, path: &[String]) -> Option<String> {
    let mut value = root.to_owned();
    for name in path {
        let next = RawObject::parse(value.get()).ok()?.get(name)?.to_owned();
        value = next;
    }
    match value.get().as_bytes().first()? {
        b'"' => serde_json::from_str(value.get()).ok(),
        b'n' | b'{' | b'[' => None,
        _ => Some(value.get().to_owned()),
    }
}

/// Which arguments of which tools go into headers, as far as the server has listed its tools on this connection.
#[derive(Debug, Default)]
pub(super) struct ToolHeaders(HashMap<String, Vec<ParamHeader>>);

impl ToolHeaders {
    /// Takes over what a page of `tools/list` says. Tools that say it wrongly must not be used over HTTP: where there are any, the
    /// page without them is returned.
    pub(super) fn learn(&mut self, page: &Payload) -> Option<Payload> {
        if self.0.is_empty() && !page.as_str().contains("x-mcp-header") {
            return None;
        }
        let mut object = RawObject::parse(page.as_str()).ok()?;
        let listed: Vec<&RawValue> = serde_json::from_str(object.get("tools")?.get()).ok()?;
        let valid: Vec<&RawValue> = listed.iter().copied().filter(|tool| self.take(tool)).collect();
        if valid.len() == listed.len() {
            return None;
        }
        let valid = serde_json::value::to_raw_value(&valid).ok()?;
        object.set("tools", valid);
        object.to_payload().ok()
    }

    /// Takes over what a tool says; false if it says it wrongly.
    fn take(&mut self, tool: &RawValue) -> bool {
        let Ok(facts) = ToolFacts::read(tool) else { return true };
        if let Err(wrong) = check_mirrored(tool) {
            tracing::warn!(tool = facts.name, %wrong, "a tool is left out");
            self.0.remove(&facts.name);
            return false;
        }
        if facts.headers.is_empty() {
            self.0.remove(&facts.name);
        } else {
            self.0.insert(facts.name, facts.headers);
        }
        true
    }

    fn of(&self, tool: &str) -> &[ParamHeader] {
        self.0.get(tool).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Payload {
        Payload::parse(text.to_owned()).expect("JSON")
    }

    fn mirrored(name: &str, params: &str, tools: &ToolHeaders) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        mirror(&mut headers, name, Some(&json(params)), tools);
        let mut all: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().expect("ASCII").to_owned()))
            .collect();
        all.sort();
        all
    }

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn arguments_are_mirrored_where_the_listed_tool_asks_for_it() {
        let mut tools = ToolHeaders::default();
        let page = r#"{"tools":[{"name":"t","inputSchema":{"properties":{
            "region":{"type":"string","x-mcp-header":"Region"},
            "n":{"type":"integer","x-mcp-header":"N"},
            "in":{"properties":{"b":{"type":"boolean","x-mcp-header":"B"}}}}}}]}"#;
        assert_eq!(tools.learn(&json(page)), None);
        let call = r#"{"name":"t","arguments":{"region":"Zürich","n":-7,"bad":"x","in":{"b":true}}}"#;
        assert_eq!(
            mirrored("tools/call", call, &tools),
            pairs(&[
                ("mcp-method", "tools/call"),
                ("mcp-name", "t"),
                ("mcp-param-b", "true"),
                ("mcp-param-n", "-7"),
                ("mcp-param-region", "=?base64?WsO8cmljaA==?="),
            ])
        );
        let without = r#"{"name":"t","arguments":{"region":null,"n":[1]}}"#;
        let plain = pairs(&[("mcp-method", "tools/call"), ("mcp-name", "t")]);
        assert_eq!(mirrored("tools/call", without, &tools), plain);
        tools.learn(&json(r#"{"tools":[{"name":"t"}]}"#));
        assert_eq!(mirrored("tools/call", call, &tools), plain, "the tool has changed");
    }

    #[test]
    fn a_tool_that_asks_for_headers_wrongly_is_left_out() {
        let mut tools = ToolHeaders::default();
        let page = r#"{"tools":[{"name":"a","x":1.0},{"name":"b","inputSchema":{"properties":{"p":{"type":"number","x-mcp-header":"P"}}}}],"nextCursor":"c"}"#;
        let left = tools.learn(&json(page)).expect("one is left out");
        assert_eq!(left.as_str(), r#"{"tools":[{"name":"a","x":1.0}],"nextCursor":"c"}"#);
    }

    #[test]
    fn each_method_names_its_subject() {
        let none = ToolHeaders::default();
        let name = |method: &str, params: &str| {
            let all = mirrored(method, params, &none);
            all.into_iter().find(|(name, _)| name == "mcp-name").map(|(_, value)| value)
        };
        assert_eq!(name("prompts/get", r#"{"name":" p"}"#).as_deref(), Some("=?base64?IHA=?="));
        assert_eq!(name("resources/read", r#"{"uri":"a://b"}"#).as_deref(), Some("a://b"));
        assert_eq!(name("tasks/get", r#"{"taskId":"7"}"#).as_deref(), Some("7"));
        assert_eq!(name("tools/list", r#"{"name":"x"}"#), None);
    }
}
