//! The three tools that stand in for the task verbs: how they are called, and how they are listed.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use taskgate_task::{InvalidPayload, Owner, Payload};
use taskgate_wire::tool::{self, TaskSupport};
use taskgate_wire::{Dialect, ListKind, Meta, RawObject, RpcError, method};

use super::super::{Answer, Caller, Request};
use crate::gateway::Gateway;
use crate::policy::TaskMode;
use crate::upstream::Upstream;
use crate::upstreams::Upstreams;

/// Put before the names, as often as it takes, where an upstream has a tool of one of them.
const PREFIX: &str = "taskgate_";

/// The task verb that a tool of this name stands in for, if it is one of ours.
pub fn method_of(tool: &str) -> Option<&'static str> {
    Companion::called(tool).map(Companion::method)
}

/// What a model can do with a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Companion {
    /// Look how it stands.
    Status,
    /// Get its result.
    Result,
    /// Stop it.
    Cancel,
}

impl Companion {
    const ALL: [Companion; 3] = [Companion::Status, Companion::Result, Companion::Cancel];

    const fn name(self) -> &'static str {
        match self {
            Companion::Status => "task_status",
            Companion::Result => "task_result",
            Companion::Cancel => "task_cancel",
        }
    }

    /// Which one is called so, with as many prefixes as may be: a model may have read its name before an upstream had the same.
    fn called(mut name: &str) -> Option<Companion> {
        while let Some(rest) = name.strip_prefix(PREFIX) {
            name = rest;
        }
        Companion::ALL.into_iter().find(|companion| companion.name() == name)
    }

    /// The verb that it stands in for.
    const fn method(self) -> &'static str {
        match self {
            Companion::Status => method::TASKS_GET,
            Companion::Result => method::TASKS_RESULT,
            Companion::Cancel => method::TASKS_CANCEL,
        }
    }

    /// As it stands in a list of tools.
    fn definition(self, names: &Names, budget: Duration) -> Result<Payload, InvalidPayload> {
        let (status, result) = (names.of(Companion::Status), names.of(Companion::Result));
        let waits = format!("waits up to {}", crate::config::format_duration(budget));
        let (title, description, annotations) = match self {
            Companion::Status => (
                "Status of a task",
                format!(
                    "Says how a task stands. Use it for work that a tool said is not finished. It {waits} for the end of the \
                     work unless you set wait to false, so do not call it in quick succession. To get the result call {result}."
                ),
                json!({ "readOnlyHint": true, "openWorldHint": false }),
            ),
            Companion::Result => (
                "Result of a task",
                format!(
                    "Returns the result of work that a tool said is not finished. It {waits}; if the work is not finished by \
                     then, it says so: call it again."
                ),
                json!({ "readOnlyHint": true, "openWorldHint": false }),
            ),
            Companion::Cancel => (
                "Cancel a task",
                format!(
                    "Stops the work of a task for good. Its result is lost. Only use it when the result is no longer wanted; \
                     to look at the task call {status}."
                ),
                json!({ "readOnlyHint": false, "destructiveHint": true, "idempotentHint": true, "openWorldHint": false }),
            ),
        };
        let task = json!({ "type": "string", "description": "The id of the task, as the tool said it." });
        let mut properties = json!({ "task": task });
        if self == Companion::Status {
            properties["wait"] = json!({ "type": "boolean", "description": "Whether to wait for the end of the work.", "default": true });
        }
        Payload::from_value(&json!({
            "name": names.of(self),
            "title": title,
            "description": description,
            "inputSchema": {
                "type": "object",
                "properties": properties,
                "required": ["task"],
                "additionalProperties": false,
            },
            "annotations": annotations,
        }))
    }
}

/// How the companions are called where an upstream may have tools of the same names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    prefix: String,
}

impl Names {
    /// The name of one.
    pub(super) fn of(&self, companion: Companion) -> String {
        format!("{}{}", self.prefix, companion.name())
    }

    /// The first ones that are free.
    fn free(is_taken: impl Fn(&str) -> bool) -> Names {
        let mut names = Names { prefix: String::new() };
        // A list of tools is finite.
        while Companion::ALL.into_iter().any(|companion| is_taken(&names.of(companion))) {
            names.prefix.push_str(PREFIX);
        }
        names
    }
}

impl Upstreams {
    /// How the companions are called, as far as it is known which tools there are.
    pub(super) fn companions(&self) -> Names {
        Names::free(|name| self.has_tool(name))
    }

    fn has_tool(&self, name: &str) -> bool {
        let has = |upstream: &std::sync::Arc<Upstream>| {
            let catalog = upstream.catalog(ListKind::Tools);
            self.find_known(ListKind::Tools, upstream, &catalog, name).is_some()
        };
        self.iter().any(has)
    }

    /// Whether a call of any tool may become a task.
    fn may_make_tasks(&self) -> bool {
        self.iter().any(|upstream| {
            let spec = upstream.spec();
            std::iter::once(&spec.policy)
                .chain(spec.tools.values())
                .any(|policy| policy.tasks != TaskMode::Never)
        })
    }
}

impl Gateway {
    /// The companion that a caller calls by this name: only one that has no tasks, and only if no upstream has a tool of the
    /// name, which always wins.
    pub(crate) async fn companion(&self, caller: &Caller, meta: &Meta<'_>, name: &str) -> Option<Companion> {
        let companion = Companion::called(name)?;
        self.budget_of(caller, meta)?;
        // Boxed: calls of other tools need not make room for this.
        let is_taken = Box::pin(self.has_learned_of(caller.owner(), name));
        (!is_taken.await).then_some(companion)
    }

    async fn has_learned_of(&self, owner: &Owner, name: &str) -> bool {
        let upstreams = self.upstreams(owner).await;
        let learned = async |upstream: &std::sync::Arc<Upstream>, kind| upstream.learn(kind).await;
        let look = || upstreams.has_tool(name).then_some((0, ()));
        let wanted = |upstream: &Upstream, kind| !upstream.is_current(kind);
        upstreams.find(&[ListKind::Tools], wanted, learned, look).await.is_some()
    }

    /// A list of tools as this caller should see it: hosts without tasks find the companions at its end.
    pub(in crate::route) async fn with_companions(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        upstreams: &Upstreams,
        page: Payload,
    ) -> Answer {
        let Some(budget) = self.patience_of(caller, &request.meta).filter(|_| upstreams.may_make_tasks())
        else {
            return Ok(page);
        };
        join_all(upstreams.iter().map(|upstream| upstream.learn(ListKind::Tools))).await;
        appended(&page, &upstreams.companions(), budget, caller.dialect()).map_err(|error| {
            RpcError::internal(format!("the list of tools cannot be written: {error}")).to_payload()
        })
    }
}

/// The page with the companions, if it is the last one.
fn appended(
    page: &Payload,
    names: &Names,
    budget: Duration,
    dialect: Option<Dialect>,
) -> Result<Payload, InvalidPayload> {
    let mut list = RawObject::parse(page.as_str())?;
    if list.get("nextCursor").is_some_and(|next| next.get() != "null") {
        return Ok(page.clone());
    }
    let listed = list.get("tools").map_or("[]", RawValue::get).to_owned();
    let mut tools: Vec<Payload> = serde_json::from_str(&listed)?;
    for companion in Companion::ALL {
        let definition = companion.definition(names, budget)?;
        tools.push(match dialect {
            Some(Dialect::D2025_11_25) => {
                tool::for_session(definition.as_raw(), None, Some(TaskSupport::Forbidden))?
            }
            Some(Dialect::D2026_07_28) | None => definition,
        });
    }
    list.set("tools", to_raw_value(&tools)?);
    if list.get("cacheScope").is_some() {
        // Others, who have tasks, must not get this one.
        list.set("cacheScope", to_raw_value("private")?);
    }
    list.to_payload()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_upstreams_are_left_to_them() {
        let taken = ["task_cancel", "taskgate_task_status"];
        let names = Names::free(|name| taken.contains(&name));
        assert_eq!(names.of(Companion::Result), "taskgate_taskgate_task_result");
        assert_eq!(Names::free(|_| false).of(Companion::Status), "task_status");
        for name in ["task_result", "taskgate_task_result", "taskgate_taskgate_task_result"] {
            assert_eq!(Companion::called(name), Some(Companion::Result));
        }
        for name in ["", "taskgate_", "task_results", "my_task_result", "tasks/result"] {
            assert_eq!(Companion::called(name), None, "{name}");
        }
    }

    #[test]
    fn only_the_last_page_has_the_companions() {
        let names = Names::free(|_| false);
        let page = |text: &str| {
            let page = Payload::parse(text.to_owned()).expect("JSON");
            appended(&page, &names, Duration::from_secs(45), None).expect("a page").as_str().to_owned()
        };
        let more = r#"{"tools":[{"name":"a"}],"nextCursor":"x"}"#;
        assert_eq!(page(more), more);
        for (text, count) in
            [(r#"{"tools":[{"name":"a"}],"nextCursor":null,"x":1.0}"#, 4), (r#"{"x":1.0}"#, 3)]
        {
            let list: serde_json::Value = serde_json::from_str(&page(text)).expect("JSON");
            assert_eq!(list["tools"].as_array().map(Vec::len), Some(count));
            assert!(page(text).contains(r#""x":1.0"#));
        }
    }
}
