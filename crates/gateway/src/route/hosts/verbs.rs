//! What the companions do. A task is compared with its owner before anything else, as for every task verb.

use std::time::Duration;

use serde::Deserialize;
use taskgate_engine::EngineError;
use taskgate_task::{Question, Status, Task, TaskId};
use taskgate_wire::CallTool;
use tokio::time::Instant;

use super::super::inline::outcome_for;
use super::super::parked::input_required;
use super::super::tasks::refusal;
use super::super::{Answer, Caller, Request};
use super::companions::{Companion, Names};
use super::{say, words};
use crate::audit::{Reason, refused};
use crate::gateway::Gateway;
use crate::session::Outlet;

/// What a companion is called with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    task: String,
    #[serde(default = "yes")]
    wait: bool,
}

fn yes() -> bool {
    true
}

impl Gateway {
    /// Answers a call of a companion, which asks for a task as the verbs do.
    pub(in crate::route) async fn accompany(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        companion: Companion,
        call: CallTool,
        out: &Outlet,
    ) -> Answer {
        self.0.limits.poll(caller).map_err(|refusal| refusal.to_error().to_payload())?;
        let answer = self.answer_in_words(caller, request, companion, call, out).await;
        if answer == unknown(caller) {
            refused(Reason::UnknownTask).await;
            self.0.limits.unknown_id(caller).await;
        }
        answer
    }

    async fn answer_in_words(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        companion: Companion,
        call: CallTool,
        out: &Outlet,
    ) -> Answer {
        let names = self.upstreams(caller.owner()).await.companions();
        let arguments = request.params.arguments().map_or("{}", serde_json::value::RawValue::get);
        let Ok(Arguments { task, wait }) = serde_json::from_str(arguments) else {
            return say(caller, &words::wrong_arguments(&names.of(companion)), true);
        };
        // What is no id is an id that nobody has.
        let Ok(id) = TaskId::parse(&task) else { return unknown(caller) };
        let told = match companion {
            Companion::Cancel => return self.cancel_in_words(caller, id, &names).await,
            Companion::Status | Companion::Result => {
                let budget = self.budget_of(caller, &request.meta).unwrap_or_default();
                let wait = if companion == Companion::Result || wait { budget } else { Duration::ZERO };
                self.take_answers(caller, id, call).await.map(|()| (budget, wait))
            }
        };
        let followed = match told {
            Ok((budget, wait)) => {
                self.followed(caller, id, wait, out).await.map(|(task, until)| (task, budget, until))
            }
            Err(error) => Err(error),
        };
        match followed {
            Ok((task, budget, stand)) => tell(caller, &task, companion, &names, budget, stand),
            Err(EngineError::NotFound) => unknown(caller),
            Err(error) => Err(refusal(error)),
        }
    }

    /// Hands over what a 2026-07-28 caller answers to the questions of an earlier call.
    async fn take_answers(&self, caller: &Caller, id: TaskId, call: CallTool) -> Result<(), EngineError> {
        let mut answers = call.answers.unwrap_or_default();
        // Only an object is an answer, and what is none leaves its question open (`to_client.rs`).
        answers.retain(|(_, answer)| answer.as_str().starts_with('{'));
        if !caller.is_stateless() || answers.is_empty() {
            return Ok(());
        }
        match self.0.engine.answer(caller.owner(), id, answers).await {
            // Then its end is the answer.
            Ok(_) | Err(EngineError::Terminal(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Follows a task until it has ended, wants to know something that cannot be asked on this stream, or the time is over.
    async fn followed(
        &self,
        caller: &Caller,
        id: TaskId,
        wait: Duration,
        out: &Outlet,
    ) -> Result<(Task, Stand), EngineError> {
        let deadline = Instant::now() + wait;
        let mut watch = self.0.engine.watch(caller.owner(), id).await?;
        let mut open = None;
        if let Caller::Session(session) = caller
            && !wait.is_zero()
            && !watch.current().status.is_terminal()
        {
            open = Some(session.result_opened(id, out.clone()));
            self.send_courier(session, watch.current());
        }
        let task = loop {
            let task = watch.current();
            let asks =
                task.status == Status::InputRequired && !(open.is_some() && can_be_asked(caller, task));
            if task.status.is_terminal() || asks {
                break task.clone();
            }
            tokio::select! {
                changed = watch.changed() => { changed?; }
                () = taskgate_engine::sleep_until(Some(deadline)) => break watch.current().clone(),
                // Whoever asks again finds the next gateway.
                () = self.shutting_down() => break watch.current().clone(),
            }
        };
        let stand = match task.status {
            status if status.is_terminal() => Stand::Ended,
            Status::InputRequired if !can_be_asked(caller, &task) => Stand::CannotAsk,
            Status::InputRequired if caller.is_stateless() && !wait.is_zero() => Stand::Asks,
            _ => Stand::Unfinished,
        };
        Ok((task, stand))
    }

    async fn cancel_in_words(&self, caller: &Caller, id: TaskId, names: &Names) -> Answer {
        match self.0.engine.cancel(caller.owner(), id).await {
            Ok(_) => say(caller, words::CANCELLED, false),
            Err(EngineError::NotFound) => unknown(caller),
            Err(EngineError::Terminal(_)) => match self.0.engine.get(caller.owner(), id).await {
                Ok(task) => say(caller, &words::ended(&task, names), false),
                Err(EngineError::NotFound) => unknown(caller),
                Err(error) => Err(refusal(error)),
            },
            Err(error) => Err(refusal(error)),
        }
    }
}

/// How a task stood when following it ended.
enum Stand {
    Ended,
    Unfinished,
    /// It wants to know something, and its caller is asked by the answer.
    Asks,
    /// It wants to know something that its caller cannot be asked.
    CannotAsk,
}

fn tell(
    caller: &Caller,
    task: &Task,
    companion: Companion,
    names: &Names,
    budget: Duration,
    stand: Stand,
) -> Answer {
    match stand {
        Stand::Ended if companion == Companion::Status => say(caller, &words::ended(task, names), false),
        Stand::Ended => match &task.outcome {
            Some(outcome) => outcome_for(caller, outcome.clone()),
            None => say(caller, &words::no_result(task), true),
        },
        Stand::Unfinished => say(caller, &words::unfinished(task, names, budget, false), false),
        Stand::CannotAsk => say(caller, &words::unfinished(task, names, budget, true), false),
        Stand::Asks => {
            let questions: Vec<Question> = askable(caller, task).collect();
            // The call itself says which task the answers are for.
            Ok(input_required(questions.iter(), None))
        }
    }
}

/// The open questions that this caller can be asked.
fn askable<'t>(caller: &Caller, task: &'t Task) -> impl Iterator<Item = Question> + use<'t> {
    let able = caller.capabilities();
    let open = task.inputs.open();
    let open = open.filter(move |open| able.allow(&open.method, open.params.as_ref()).is_ok());
    open.map(|open| Question {
        key: open.key.clone(),
        method: open.method.clone(),
        params: open.params.clone(),
    })
}

fn can_be_asked(caller: &Caller, task: &Task) -> bool {
    askable(caller, task).next().is_some()
}

/// The answer for ids that are unknown, foreign or expired: one and the same.
fn unknown(caller: &Caller) -> Answer {
    say(caller, words::UNKNOWN, true)
}
