//! Carries a task's questions and news to the client of a 2025-11-25 session.
//!
//! Each question goes out once at a time: on a waiting `tasks/result` if there is one, else on the general stream (GET or
//! stdout). Some clients never call `tasks/result` while a task wants input, others do so as soon as they see the
//! status; so the general stream is used only after the client has seen `input_required` and had a moment to
//! call. A stream that breaks before the answer makes the question due again. A `tasks/get` may carry questions, too: `polled.rs`.
//!
//! A host that knows no tasks (`route/hosts/`) is asked while one of its calls about the task is open, and hears no news: it
//! would not know what they are about.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use taskgate_task::{Payload, Status, Task, TaskId};
use taskgate_wire::dialect::{d2025_10_20, d2025_11_25};
use taskgate_wire::meta::{self, RELATED_TASK};
use taskgate_wire::method;
use taskgate_wire::question::for_session;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::gateway::Gateway;
use crate::session::{Outlet, Session};
use crate::to_client::ToClient;

/// How long a client that has seen `input_required` has to call `tasks/result`.
const MOMENT: Duration = Duration::from_millis(400);

impl Gateway {
    /// Sends a courier for this task to this session, unless one is on its way. `task` is what the client has seen of it:
    /// whatever came later is news.
    pub(super) fn send_courier(&self, session: &Arc<Session>, task: &Task) {
        let (id, told) = (task.id, task.version);
        if !session.claim_courier(id) {
            return;
        }
        let gateway = self.clone();
        let session = session.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = gateway.carry_questions(&session, id, told) => {}
                () = session.ended() => {}
            }
            session.release_courier(&id);
        });
    }

    async fn carry_questions(&self, session: &Arc<Session>, id: TaskId, mut told: u64) {
        let Ok(mut watch) = self.0.engine.watch(session.owner(), id).await else { return };
        let mut out = FuturesUnordered::new();
        // The keys of what this courier has out. Dropping the sender takes the question back from the client.
        let mut mine: HashMap<String, oneshot::Sender<()>> = HashMap::new();
        let mut waits_since = Instant::now();
        loop {
            let streams = session.streams_changed();
            tokio::pin!(streams);
            streams.as_mut().enable();
            let task = watch.current().clone();
            if task.version > told {
                told = task.version;
                // Nobody may rely on these, so none is kept for a stream that is not open. In 2025-10-20 there are none.
                if session.knows_tasks()
                    && !session.has_given_ids()
                    && session.general().is_some()
                    && let Ok(params) = d2025_11_25::notification(&task)
                {
                    session.notify(method::TASK_STATUS, Some(params));
                }
            }
            if task.status.is_terminal() {
                // Nothing may stay open with the client that nobody will hear the answer to.
                mine.clear();
                while out.next().await.is_some() {}
                return;
            }
            // The upstream may have taken a question back, or somebody else may have answered it.
            mine.retain(|key, _| task.inputs.open().any(|open| open.key == *key));
            let mut look_again = None;
            let freed = self.0.asking_freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let mut elsewhere = false;
            if task.status == Status::InputRequired {
                let due = session.told_at(&id).map_or(waits_since + task.poll_interval * 2, |at| at + MOMENT);
                match stream_for(session, &id, due) {
                    Some(outlet) => {
                        session.courier_asks(&id, true);
                        let (asked, taken) = self.ask_open(session, &task, &outlet, ToClient::send).await;
                        elsewhere = taken.iter().any(|key| !mine.contains_key(key));
                        for (asking, mut asked) in asked {
                            let (open, over) = oneshot::channel();
                            mine.insert(asking.key.clone(), open);
                            out.push(async move {
                                let answer = tokio::select! {
                                    answer = asked.answer_while_connected() => answer,
                                    _ = over => None,
                                };
                                if answer.is_none() {
                                    // A client that comes back to the stream must not answer what is asked elsewhere.
                                    asked.take_back();
                                }
                                (asking, answer)
                            });
                        }
                    }
                    None => look_again = (due > Instant::now()).then_some(due),
                }
            } else {
                session.untell(&id);
                waits_since = Instant::now();
            }
            session.courier_asks(&id, !mine.is_empty());
            tokio::select! {
                changed = watch.changed() => if changed.is_err() { return },
                () = &mut streams => {}
                () = &mut freed, if elsewhere => {}
                () = taskgate_engine::sleep_until(look_again) => {}
                Some((asking, answer)) = out.next() => {
                    let asking: Asking = asking;
                    mine.remove(&asking.key);
                    self.answered(session, &asking, answer).await;
                }
            }
        }
    }

    /// Puts the open questions that are not out on any stream on this one. Returns these, and the keys of those that are
    /// out already.
    pub(super) async fn ask_open(
        &self,
        session: &Arc<Session>,
        task: &Task,
        outlet: &Outlet,
        send: fn(&Arc<Session>, &Outlet, String, Option<Payload>) -> ToClient,
    ) -> (Vec<(Asking, ToClient)>, Vec<String>) {
        let (mut asked, mut taken) = (Vec::new(), Vec::new());
        let capabilities = session.negotiated().map(|n| n.capabilities).unwrap_or_default();
        for question in task.inputs.open() {
            if capabilities.allow(&question.method, question.params.as_ref()).is_err() {
                // Nobody in this session can answer; another session of the same owner may.
                continue;
            }
            if !self.0.asking.lock().insert((task.id, question.key.clone())) {
                taken.push(question.key.clone());
                continue;
            }
            let asking = Asking {
                claim: Some(self.clone()),
                id: task.id,
                key: question.key.clone(),
                method: question.method.clone(),
            };
            // The record at hand may be older than an answer that was just taken. Answers are committed before their
            // question is let go of, so a record read after the claim is new enough.
            let open = self
                .0
                .engine
                .get(session.owner(), task.id)
                .await
                .is_ok_and(|now| now.inputs.open().any(|open| open.key == question.key));
            if open {
                let params = related(session, question.params.as_ref(), task);
                // Asked again on another stream, it is the same question.
                let id = || format!("{}-{}", task.id, question.key);
                let Ok(params) = for_session(&question.method, Some(params), id) else { continue };
                asked.push((asking, send(session, outlet, question.method.clone(), params)));
            }
        }
        (asked, taken)
    }

    /// Takes what came back for a question. A broken stream and the end of the session give no answer and make the
    /// question due again.
    pub(super) async fn answered(
        &self,
        session: &Session,
        asking: &Asking,
        answer: Option<Result<Payload, Payload>>,
    ) {
        let Some(answer) = answer else { return };
        let answers = vec![(asking.key.clone(), answer.unwrap_or_else(|_| declined(&asking.method)))];
        if let Err(error) = self.0.engine.answer(session.owner(), asking.id, answers).await {
            tracing::debug!(task = ?asking.id, %error, "an answer came too late");
        }
    }
}

/// A question that is out; dropping this makes it due again, should it still be open.
pub(super) struct Asking {
    /// Who knows that it is out, as long as nobody else may ask it.
    claim: Option<Gateway>,
    pub(super) id: TaskId,
    pub(super) key: String,
    method: String,
}

impl Asking {
    /// The same question, which others may ask from now on.
    pub(super) fn let_go(mut self) -> Asking {
        self.release();
        self
    }

    fn release(&mut self) {
        if let Some(gateway) = self.claim.take() {
            gateway.0.asking.lock().remove(&(self.id, self.key.clone()));
            gateway.0.asking_freed.notify_waiters();
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.release();
    }
}

fn stream_for(session: &Session, id: &TaskId, due: Instant) -> Option<Outlet> {
    let general = || session.general().filter(|_| session.knows_tasks() && Instant::now() >= due);
    session.result_stream(id).or_else(general)
}

/// What a client's error means as an answer: an elicitation is cancelled, other questions have no answer.
fn declined(method: &str) -> Payload {
    let text = if method == method::ELICIT { r#"{"action":"cancel"}"# } else { "null" };
    Payload::parse(text.to_owned()).unwrap_or_else(|_| Payload::null())
}

/// A question's params with the related task, as 2025-11-25 and 2025-10-20 demand.
fn related(session: &Session, params: Option<&Payload>, task: &Task) -> Payload {
    if session.has_given_ids() {
        let params = params.cloned().unwrap_or_else(super::empty);
        return d2025_10_20::related(&params, &d2025_10_20::name_of(task)).unwrap_or(params);
    }
    let edited = meta::edit(params, |meta| {
        let task = serde_json::json!({ "taskId": task.id.to_string() });
        meta.set(RELATED_TASK, serde_json::value::to_raw_value(&task)?);
        Ok(())
    });
    edited.unwrap_or_else(|_| super::empty())
}
