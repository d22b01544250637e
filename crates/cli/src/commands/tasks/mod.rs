//! `taskgate tasks`: what whoever runs the store sees and does, across owners. In the store itself or, where a gateway has it
//! open alone, by way of that gateway.

mod show;

use serde_json::json;
use taskgate_gateway::admin::{self, AdminReply, AdminRequest, Desk, TaskFilter, Why};
use taskgate_gateway::{Engine, NodeSettings, StorePlace};

use super::store::{Found, find, open};
use crate::args::tasks::{Tasks, millis};
use crate::display::Output;
use crate::exit_code::{ExitCode, Failure};
use crate::follow::print;
use crate::say::say;

/// Does it.
pub fn run(verb: &Tasks) -> Result<(), Failure> {
    let (place, output, request) = match verb {
        Tasks::List(list) => {
            let request = AdminRequest::List { filter: list.filter.wanted(), limit: list.limit };
            (&list.place, list.output, request)
        }
        Tasks::Show(named) => (&named.place, named.output, AdminRequest::Show { task: named.task.clone() }),
        Tasks::Cancel(named) => {
            (&named.place, named.output, AdminRequest::Cancel { task: named.task.clone() })
        }
        Tasks::Fail(fail) => {
            let request = AdminRequest::Fail { task: fail.named.task.clone(), message: fail.message.clone() };
            (&fail.named.place, fail.named.output, request)
        }
        Tasks::Requeue(named) => {
            (&named.place, named.output, AdminRequest::Requeue { task: named.task.clone() })
        }
        Tasks::Prune(prune) => {
            let filter = TaskFilter {
                status: prune.status.clone(),
                owner: prune.owner.clone(),
                upstream: prune.upstream.clone(),
                ..TaskFilter::default()
            };
            let ended_before_ms = millis(prune.ended_before);
            (
                &prune.place,
                prune.output,
                AdminRequest::Prune { filter, ended_before_ms, dry_run: prune.dry_run },
            )
        }
    };
    let found = find(place)?;
    let cannot = |error| Failure::new(ExitCode::Failure, format!("cannot start: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let reply = runtime.block_on(reach(&found, request))?;
    let is_dry = matches!(verb, Tasks::Prune(prune) if prune.dry_run);
    tell(reply, output, is_dry)
}

/// Has the request answered by whoever can.
async fn reach(found: &Found, request: AdminRequest) -> Result<AdminReply, Failure> {
    if let StorePlace::Sqlite(path) = &found.place {
        let broken = |error| {
            let socket = admin::socket_of(path);
            Failure::new(ExitCode::Failure, format!("the socket {} is of no use: {error}", socket.display()))
        };
        if let Some(reply) = admin::ask(path, &request).await.map_err(broken)? {
            return Ok(reply);
        }
    }
    let store = open(found).await?;
    let broken = |error| Failure::new(ExitCode::Failure, format!("cannot start: {error}"));
    let engine = Engine::new(store, NodeSettings::default()).map_err(broken)?;
    engine.begin_nothing();
    Ok(Desk::new(engine).answer(request).await)
}

fn tell(reply: AdminReply, output: Output, is_dry: bool) -> Result<(), Failure> {
    match (reply, output) {
        (AdminReply::Tasks { tasks, .. }, Output::Json) => {
            tasks.iter().try_for_each(|task| print(&json!(task)))
        }
        (AdminReply::Tasks { tasks, left_out }, Output::Text) => {
            say(show::list(&tasks))?;
            if left_out > 0 {
                eprintln!(
                    "taskgate: {left_out} older ones are left out; --limit shows more, filters show others"
                );
            }
            Ok(())
        }
        (AdminReply::Task { task, events }, Output::Json) => {
            print(&json!({ "task": task, "events": events }))
        }
        (AdminReply::Task { task, events }, Output::Text) => say(show::one(&task, &events)),
        (AdminReply::Pruned { count, kept }, Output::Json) => {
            say(format_args!("{}\n", json!({ "pruned": count, "kept": kept, "dryRun": is_dry })))
        }
        (AdminReply::Pruned { count, kept }, Output::Text) => {
            let done = if is_dry { "would be deleted" } else { "deleted" };
            let kept = match kept {
                0 => String::new(),
                kept => format!(", {kept} kept, as their work is still being stopped"),
            };
            say(format_args!("{count} {done}{kept}\n"))
        }
        (AdminReply::Refused { why, message }, _) => {
            let code = match why {
                Why::NotFound => ExitCode::NoTask,
                Why::Ended | Why::NotPossible | Why::NoRequest | Why::Store => ExitCode::Failure,
            };
            Err(Failure::new(code, message))
        }
    }
}
