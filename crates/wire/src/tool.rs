//! What is read from a tool's definition, and what each generation wants to see in it.

mod mirrored;

use serde::Deserialize;
use serde_json::value::RawValue;
use taskgate_task::{InvalidPayload, Payload};

use crate::raw::RawObject;
pub use mirrored::{Unmirrored, check_mirrored};

/// `execution.taskSupport` of 2025-11-25.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskSupport {
    /// Never a task; the same as saying nothing.
    #[default]
    Forbidden,
    /// As the caller likes.
    Optional,
    /// Only as a task.
    Required,
}

impl TaskSupport {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            TaskSupport::Forbidden => "forbidden",
            TaskSupport::Optional => "optional",
            TaskSupport::Required => "required",
        }
    }

    /// What a tool's `execution` says. What is not understood says nothing.
    fn read(execution: &RawValue) -> TaskSupport {
        let said = RawObject::parse(execution.get()).ok();
        let word = said.as_ref().and_then(|said| said.get("taskSupport")).map_or("", RawValue::get);
        match word {
            "\"optional\"" => TaskSupport::Optional,
            "\"required\"" => TaskSupport::Required,
            _ => TaskSupport::Forbidden,
        }
    }
}

/// What a tool's definition decides here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFacts {
    /// Its name.
    pub name: String,
    /// What it says of itself.
    pub hints: ToolHints,
    /// Annotated as read-only or idempotent: it may be run again after a crash.
    pub repeatable: bool,
    /// Whether the server itself makes tasks of its calls (2025-11-25).
    pub task_support: TaskSupport,
    /// Arguments that 2026-07-28 callers mirror into headers.
    pub headers: Vec<ParamHeader>,
    /// Whether it says what its results look like: clients refuse a result that does not.
    pub has_output_schema: bool,
}

/// What a tool's `annotations` say, with what the specification says where they say nothing. They are a server's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolHints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy something, not only add to it.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// It deals with things outside, such as the web.
    pub open_world: bool,
}

impl ToolHints {
    /// What is meant by annotations that say this. `destructiveHint` and `idempotentHint` are "meaningful only when `readOnlyHint ==
    /// false`": what changes nothing destroys nothing and can be called again.
    pub fn of(
        read_only: Option<bool>,
        destructive: Option<bool>,
        idempotent: Option<bool>,
        open_world: Option<bool>,
    ) -> ToolHints {
        let read_only = read_only.unwrap_or(false);
        ToolHints {
            read_only,
            destructive: !read_only && destructive.unwrap_or(true),
            idempotent: read_only || idempotent.unwrap_or(false),
            open_world: open_world.unwrap_or(true),
        }
    }
}

/// One `x-mcp-header`: the header's name after `Mcp-Param-`, and the path of the argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamHeader {
    /// The name part.
    pub name: String,
    /// Property names from the root of the arguments.
    pub path: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition<'a> {
    name: String,
    #[serde(borrow, default)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_schema: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output_schema: Option<&'a RawValue>,
    #[serde(borrow, default)]
    execution: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Hints {
    #[serde(default)]
    read_only_hint: Option<bool>,
    #[serde(default)]
    destructive_hint: Option<bool>,
    #[serde(default)]
    idempotent_hint: Option<bool>,
    #[serde(default)]
    open_world_hint: Option<bool>,
}

impl ToolFacts {
    /// Reads a definition; one without a name is no tool. Members that are not understood decide nothing.
    pub fn read(definition: &RawValue) -> Result<ToolFacts, InvalidPayload> {
        let tool: Definition = serde_json::from_str(definition.get())?;
        let said: Hints =
            tool.annotations.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let hints = ToolHints::of(
            said.read_only_hint,
            said.destructive_hint,
            said.idempotent_hint,
            said.open_world_hint,
        );
        let mut headers = Vec::new();
        if let Some(schema) = tool.input_schema {
            find_headers(schema, &mut Vec::new(), &mut headers);
        }
        Ok(ToolFacts {
            name: tool.name,
            hints,
            repeatable: hints.idempotent,
            task_support: tool.execution.map(TaskSupport::read).unwrap_or_default(),
            headers,
            has_output_schema: tool.output_schema.is_some(),
        })
    }
}

/// Follows `properties` only: annotations anywhere else do not count (2026-07-28, "statically reachable").
fn find_headers(schema: &RawValue, path: &mut Vec<String>, found: &mut Vec<ParamHeader>) {
    const DEEPEST: usize = 32;
    let Ok(object) = RawObject::parse(schema.get()) else { return };
    if let Some(name) = object.get("x-mcp-header")
        && !path.is_empty()
        && let Ok(name) = serde_json::from_str::<String>(name.get())
        && !name.is_empty()
    {
        found.push(ParamHeader { name, path: path.clone() });
    }
    if path.len() < DEEPEST
        && let Some(properties) = object.get("properties")
        && let Ok(properties) = RawObject::parse(properties.get())
    {
        for (name, schema) in properties.iter() {
            path.push(name.to_owned());
            find_headers(schema, path, found);
            path.pop();
        }
    }
}

/// A definition for 2025-11-25: `execution.taskSupport` says what this receiver allows.
pub fn for_session(
    definition: &RawValue,
    name: Option<&str>,
    support: Option<TaskSupport>,
) -> Result<Payload, InvalidPayload> {
    let mut tool = renamed(definition, name)?;
    let execution = tool.get("execution").map(ToOwned::to_owned);
    let mut members =
        execution.as_ref().map(|raw| RawObject::parse(raw.get())).transpose()?.unwrap_or_default();
    match support {
        Some(support) => members.set("taskSupport", serde_json::value::to_raw_value(support.as_str())?),
        None => members.remove("taskSupport"),
    }
    if members.is_empty() {
        tool.remove("execution");
    } else {
        tool.set("execution", members.to_raw()?);
    }
    tool.to_payload()
}

/// A definition for 2026-07-28, where `execution` does not exist: whether a call becomes a task is the server's choice.
pub fn for_stateless(definition: &RawValue, name: Option<&str>) -> Result<Payload, InvalidPayload> {
    let mut tool = renamed(definition, name)?;
    tool.remove("execution");
    tool.to_payload()
}

/// A definition under another name, if one is given.
pub fn renamed<'a>(definition: &'a RawValue, name: Option<&str>) -> Result<RawObject<'a>, InvalidPayload> {
    let mut tool = RawObject::parse(definition.get())?;
    if let Some(name) = name {
        tool.set("name", serde_json::value::to_raw_value(name)?);
    }
    Ok(tool)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).expect("JSON")
    }

    #[test]
    fn only_task_support_changes_in_a_definition() {
        let tool = raw(r#"{"name":"t","x":1.0,"execution":{"other":1,"taskSupport":"required"}}"#);
        assert_eq!(
            for_session(&tool, None, Some(TaskSupport::Optional)).expect("tool").as_str(),
            r#"{"name":"t","x":1.0,"execution":{"other":1,"taskSupport":"optional"}}"#
        );
        assert_eq!(
            for_session(&raw(r#"{"name":"t"}"#), None, None).expect("tool").as_str(),
            r#"{"name":"t"}"#
        );
        assert_eq!(for_stateless(&tool, Some("p_t")).expect("tool").as_str(), r#"{"name":"p_t","x":1.0}"#);
    }

    /// Case 26: absent is forbidden, and so is whatever is no word of the protocol.
    #[test]
    fn task_support_is_read_from_the_definition() {
        for (execution, support) in [
            (r#"{"taskSupport":"required"}"#, TaskSupport::Required),
            (r#"{"taskSupport":"optional"}"#, TaskSupport::Optional),
            (r#"{"taskSupport":"forbidden"}"#, TaskSupport::Forbidden),
            (r#"{"taskSupport":true}"#, TaskSupport::Forbidden),
            ("{}", TaskSupport::Forbidden),
            ("7", TaskSupport::Forbidden),
        ] {
            let facts = ToolFacts::read(&raw(&format!(r#"{{"name":"t","execution":{execution}}}"#)));
            assert_eq!(facts.expect("tool").task_support, support, "{execution}");
        }
        assert_eq!(
            ToolFacts::read(&raw(r#"{"name":"t"}"#)).expect("tool").task_support,
            TaskSupport::Forbidden
        );
    }

    /// What is not said, or not understood, is what the specification says, and never the milder thing.
    #[test]
    fn hints_that_are_missing_are_what_the_specification_says() {
        let hints = |annotations: &str| {
            let facts = ToolFacts::read(&raw(&format!(r#"{{"name":"t"{annotations}}}"#))).expect("tool");
            let ToolHints { read_only, destructive, idempotent, open_world } = facts.hints;
            assert_eq!(facts.repeatable, idempotent);
            [read_only, destructive, idempotent, open_world]
        };
        let bare = [false, true, false, true];
        for (annotations, expected) in [
            ("", bare),
            (r#","annotations":{}"#, bare),
            (r#","annotations":{"readOnlyHint":"yes","openWorldHint":false}"#, bare),
            (r#","annotations":{"readOnlyHint":null}"#, bare),
            (r#","annotations":{"destructiveHint":false,"idempotentHint":true}"#, [false, false, true, true]),
            (r#","annotations":{"openWorldHint":false}"#, [false, true, false, false]),
            (r#","annotations":{"readOnlyHint":true,"destructiveHint":true}"#, [true, false, true, true]),
        ] {
            assert_eq!(hints(annotations), expected, "{annotations}");
        }
    }

    #[test]
    fn headers_are_found_along_properties_only() {
        let tool = raw(
            r#"{"name":"t","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{
            "a":{"type":"string","x-mcp-header":"A"},
            "o":{"properties":{"b":{"type":"integer","x-mcp-header":"B"}}},
            "l":{"items":{"x-mcp-header":"No"}}},"anyOf":[{"properties":{"c":{"x-mcp-header":"No"}}}]}}"#,
        );
        let facts = ToolFacts::read(&tool).expect("tool");
        assert!(facts.repeatable);
        let found: Vec<_> = facts.headers.iter().map(|h| (h.name.as_str(), h.path.join("."))).collect();
        assert_eq!(found, [("A", "a".to_owned()), ("B", "o.b".to_owned())]);
    }
}
