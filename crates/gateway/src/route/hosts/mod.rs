//! Hosts that know no tasks, which is most of them.
//!
//! A host gives up a request after a time of its own, usually 60 s, and with it the work and its result. So a call that outlasts
//! a budget becomes a task all the same, and its caller gets words: they name the task, and say to the host's model what
//! to do next. What there is to do are three tools of ours, which such callers find at the end of their list of tools. Each of
//! them may wait for as long as the budget, so a model that follows the words needs one call in that time.

mod companions;
mod verbs;
mod words;

pub use companions::method_of as method_of_companion;

use std::time::Duration;

use taskgate_engine::InlineCall;
use taskgate_task::{Outcome, Payload};
use taskgate_wire::{Meta, meta};

use super::inline::outcome_for;
use super::tasks::refusal;
use super::{Answer, Caller};
use crate::gateway::{Gateway, Target};

impl Gateway {
    /// How long a caller that has no tasks waits for a call; `None` if it has tasks, or is to wait for the end.
    fn budget_of(&self, caller: &Caller, meta: &Meta<'_>) -> Option<Duration> {
        match caller {
            Caller::Session(session) => session.negotiated()?.budget,
            Caller::Stateless { capabilities, .. } if capabilities.tasks_extension => None,
            Caller::Stateless { .. } => {
                let name = meta.client_info.and_then(meta::client_name);
                self.0.settings.hosts.budget_of(name.as_deref())
            }
        }
    }

    /// The same for a call that its caller begins now: a session whose client has shown that it knows tasks is left to ask
    /// for them.
    pub(super) fn patience_of(&self, caller: &Caller, meta: &Meta<'_>) -> Option<Duration> {
        match caller {
            Caller::Session(session) if session.knows_tasks() => None,
            _ => self.budget_of(caller, meta),
        }
    }

    /// Makes a task of a call that takes too long for its caller, and says so in words. `tool` is the caller's name for it, `heard` what it
    /// said last of its progress.
    pub(super) async fn told_in_words(
        &self,
        caller: &Caller,
        target: &Target,
        tool: &str,
        running: InlineCall,
        budget: Duration,
        heard: Option<String>,
    ) -> Answer {
        let names = self.upstreams(caller.owner()).await.companions();
        let message = heard.or_else(|| running.immediate());
        let task = running.become_task(None).await.map_err(refusal)?;
        let text = words::begun(&task, tool, &names, budget, message.as_deref());
        // Clients refuse a result that is not as the tool's schema says, unless it is an error.
        let is_error = target.tool.as_ref().is_some_and(|tool| tool.has_output_schema);
        say(caller, &text, is_error)
    }
}

/// A result that is nothing but words.
fn say(caller: &Caller, text: &str, is_error: bool) -> Answer {
    let result = serde_json::json!({ "content": [{ "type": "text", "text": text }], "isError": is_error });
    let body = Payload::from_value(&result)
        .map_err(|error| taskgate_wire::RpcError::internal(error.to_string()).to_payload())?;
    outcome_for(caller, Outcome::Result { body, is_error, summary: None })
}
