use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use taskgate_client::FailureKind;
use taskgate_client::requestor::{Pace, Rhythm};
use taskgate_client::session::{CallEvent, CallFailure, Heard, Notifications, PendingCall, Question};
use taskgate_engine::{Ending, Report};
use taskgate_task::{InvalidPayload, Payload};
use taskgate_wire::hosted::{self, HostedStatus, HostedTask};
use taskgate_wire::{Dialect, ErrorCode, Id, RawObject, meta, method, translate};

use super::super::asking::{Asking, Due};
use super::super::catalog::is_method_not_found;
use super::super::ending::{failed_with, message_of, progress_line, short};
use super::ends::{error_of, finished, with_result, without_result, words_of};
use super::inputs::{Inputs, News};
use super::voice::Voice;
use super::{Handle, Line, Mark};

/// How often the wait for a result may end before the task has; after that nothing is concluded from it any more.
const EARLY_ENDS: u32 = 3;

/// No task is asked about more often, whatever its server says and however much it tells, and none more rarely.
const PACE: Pace = Pace { floor: Duration::from_millis(50), cap: Duration::from_secs(60), jitter: 0.0 };

/// What is followed, and what is known of it.
pub struct Start {
    /// Where.
    pub line: Line,
    /// The task.
    pub handle: Handle,
    /// What its server said when it made it; `None` if that was another attempt's.
    pub first: Option<HostedTask>,
    /// The token under which it may report progress.
    pub token: Option<Id>,
    /// What the server says apart from calls, from the time before the task was made.
    pub heard: Notifications,
}

/// The server no longer knows the task: nothing of it goes on there. The end, unless the call is made again.
pub struct Forgotten(pub Ending);

/// Follows a task of an upstream to its end.
///
/// Its state is asked for at the server's interval; what the server says by itself only makes that happen sooner.
pub async fn follow(start: Start, report: &Report) -> Result<Ending, Forgotten> {
    let Start { line, handle, first, token, mut heard } = start;
    let Some(dialect) = line.dialect() else {
        return Ok(failed_with(
            "The server no longer speaks a version that has tasks, and this call waits for one of its tasks",
        ));
    };
    let is_new = first.is_some();
    let mut pace = Rhythm::new(PACE, first.as_ref().and_then(|task| task.poll_interval));
    if first.as_ref().is_none_or(|task| task.status != HostedStatus::Working) {
        pace.hurry();
    }
    let mut listening = (dialect == Dialect::D2026_07_28).then(|| listen(&line, &handle.id));
    // Whether the subscription has brought anything, so that it is worth another one.
    let mut was_told = false;
    let mut following = Following {
        line: &line,
        handle: &handle,
        dialect,
        report,
        pace,
        voice: Voice::default(),
        // Work that is found again has come further than any attempt before: losing it once more counts from here.
        is_renewed: is_new,
        state: None,
        result: None,
        second: None,
        early: None,
        early_ends: 0,
        over: None,
        is_forgotten: false,
        asking: Asking::of_task(),
        inputs: Inputs::default(),
    };
    // Another attempt may have been answered and have had no time to pass it on. Of a call that was made again there may be
    // answers to a task before this one.
    if !is_new && handle.calls == 1 {
        following.inputs.remember(report).await;
    }
    if let Some(first) = &first {
        following.voice.tell(first, report);
    }
    loop {
        let due = following.pace.due();
        let ending = tokio::select! {
            biased;
            event = next_of(&mut following.state) => following.heard_state(event).await,
            event = next_of(&mut following.result) => following.heard_result(event).await,
            event = next_of(&mut following.second) => following.heard_result(event).await,
            due = following.asking.next() => following.answered(due).await,
            news = following.inputs.next() => following.input(news),
            said = heard.next() => following.heard(said, token.as_ref()),
            event = next_of(&mut listening) => {
                match event {
                    CallEvent::Notification { method, .. } if method == method::TASK_NOTIFICATION => {
                        was_told = true;
                        following.pace.hurry();
                    }
                    // What stands between us and the server has cut it off. What was missed is asked for.
                    CallEvent::Done(Err(CallFailure::Request(failure)))
                        if was_told && !failure.is_of_connection() =>
                    {
                        was_told = false;
                        listening = Some(listen(&line, &handle.id));
                        following.pace.hurry();
                    }
                    CallEvent::Done(_) => listening = None,
                    CallEvent::Notification { .. } => was_told = true,
                    _ => {}
                }
                None
            }
            () = taskgate_engine::sleep_until(due) => {
                if following.over.is_some() && following.result.is_some() {
                    following.second = Some(line.about(method::TASKS_RESULT, &handle.id));
                    following.pace.stop();
                    continue;
                }
                following.state = Some(line.about(method::TASKS_GET, &handle.id));
                following.pace.asked();
                None
            }
        };
        if let Some(ending) = ending {
            return if following.is_forgotten { Err(Forgotten(ending)) } else { Ok(ending) };
        }
    }
}

/// Asks to be told when the task changes. A server that does not want to is just asked.
fn listen(line: &Line, id: &str) -> PendingCall {
    let filter = serde_json::json!({ "notifications": { "taskIds": [id] } });
    let filter = serde_json::value::to_raw_value(&filter).ok();
    line.call(method::LISTEN, filter.as_deref(), true)
}

async fn next_of(call: &mut Option<PendingCall>) -> CallEvent {
    match call {
        Some(call) => call.next().await,
        None => std::future::pending().await,
    }
}

struct Following<'a> {
    line: &'a Line,
    handle: &'a Handle,
    dialect: Dialect,
    report: &'a Report,
    pace: Rhythm,
    voice: Voice,
    is_renewed: bool,
    /// `tasks/get`, if one is under way.
    state: Option<PendingCall>,
    /// `tasks/result`, if one is under way (2025-11-25).
    result: Option<PendingCall>,
    /// Another one from after the end, beside one that was there before: there are servers in which that misses the end.
    second: Option<PendingCall>,
    /// How the last one ended, when the task had not, as far as was known.
    early: Option<Payload>,
    early_ends: u32,
    /// How the task has ended, once only its result is missing (2025-11-25).
    over: Option<HostedTask>,
    is_forgotten: bool,
    asking: Asking,
    inputs: Inputs,
}

impl Following<'_> {
    async fn heard_state(&mut self, event: CallEvent) -> Option<Ending> {
        let outcome = match event {
            // A server may ask on the stream of any request, and ask only once.
            CallEvent::Question(question) => {
                self.asked(question);
                return None;
            }
            CallEvent::QuestionWithdrawn { id, .. } => {
                self.asking.take_back(&id, self.report).await;
                return None;
            }
            CallEvent::Progress(_) | CallEvent::Log(_) | CallEvent::Notification { .. } => return None,
            CallEvent::Done(outcome) => outcome,
        };
        self.state = None;
        let answer = match outcome {
            Ok(answer) => answer,
            Err(failure) => return self.failed(&failure),
        };
        match hosted::state(self.dialect, &answer) {
            Some(task) => self.stands(task).await,
            None => self.puzzled("its answer is no object"),
        }
    }

    /// What follows from where the task stands.
    async fn stands(&mut self, task: HostedTask) -> Option<Ending> {
        if let HostedStatus::Unknown(word) = &task.status {
            return self
                .puzzled(&format!("its task has a status that is not known: {}", short(word.clone())));
        }
        self.pace.answered(task.poll_interval);
        if !std::mem::replace(&mut self.is_renewed, true)
            && let Ok(state) = Mark::Task(self.handle.clone()).write()
            && let Err(error) = self.report.checkpoint(state).await
        {
            tracing::debug!(%error, "a handle was put down too late");
        }
        self.voice.tell(&task, self.report);
        let early = self.early.take();
        match (&task.status, self.dialect) {
            (HostedStatus::Cancelled, _) => {
                let said = task.message.map(|message| format!(": {}", short(message))).unwrap_or_default();
                Some(failed_with(&format!("The server cancelled its task{said}")))
            }
            (HostedStatus::Completed | HostedStatus::Failed, Dialect::D2025_11_25) => {
                self.pace.stop();
                if let Some(result) = early {
                    return Some(with_result(&task, result));
                }
                self.over = Some(task);
                if self.result.is_some() {
                    self.pace.pause();
                }
                self.open_result()
            }
            (HostedStatus::Completed, Dialect::D2026_07_28) => Some(match task.result {
                Some(result) => finished(result),
                None => failed_with("The server's task is completed and has no result"),
            }),
            (HostedStatus::Failed, Dialect::D2026_07_28) => {
                Some(error_of(&task).unwrap_or_else(|| failed_with(&words_of(&task))))
            }
            (HostedStatus::InputRequired, Dialect::D2025_11_25) => self.open_result(),
            (_, Dialect::D2025_11_25) => None,
            (_, Dialect::D2026_07_28) => {
                match self.inputs.listed(task.input_requests.as_ref(), &self.line.whom, self.report).await {
                    Ok(undelivered) => {
                        undelivered.into_iter().for_each(|(key, answer)| self.deliver(key, answer));
                        None
                    }
                    Err(why) => Some(self.given_up(&why)),
                }
            }
        }
    }

    /// Asks what the server asks.
    fn asked(&mut self, question: Question) {
        // The id of its task means nothing to whoever is asked here.
        let params = question.params.map(|params| meta::without(meta::RELATED_TASK, params));
        self.asking.take(Question { params, ..question }, &self.line.whom, self.report);
    }

    /// Waits for the result: that is also how the questions of a task arrive.
    fn open_result(&mut self) -> Option<Ending> {
        if self.result.is_none() {
            self.result = Some(self.line.about(method::TASKS_RESULT, &self.handle.id));
        }
        None
    }

    async fn heard_result(&mut self, event: CallEvent) -> Option<Ending> {
        let outcome = match event {
            CallEvent::Progress(raw) => {
                self.report.progress(progress_line(&raw), raw);
                return None;
            }
            CallEvent::Log(raw) => {
                self.report.log(raw);
                return None;
            }
            CallEvent::Question(question) => {
                self.asked(question);
                return None;
            }
            CallEvent::QuestionWithdrawn { id, .. } => {
                self.asking.take_back(&id, self.report).await;
                return None;
            }
            CallEvent::Notification { .. } => return None,
            CallEvent::Done(outcome) => outcome,
        };
        (self.result, self.second) = (None, None);
        match (outcome, &self.over) {
            (Ok(result), Some(task)) => Some(with_result(task, result)),
            (Err(CallFailure::Rpc(error)), Some(task)) => Some(without_result(task, error)),
            (Err(failure), _) if is_of_connection(&failure) => self.failed(&failure),
            (Err(failure), Some(_)) => self.puzzled(&failure.to_string()),
            // The only way for its questions.
            (Err(CallFailure::Rpc(error)), None) if is_method_not_found(&error) => {
                let message = message_of(&error);
                Some(self.given_up(&format!(
                    "The server has no tasks/result, so its task can neither ask nor answer: {message}"
                )))
            }
            // The task may have ended, or the server may not wait with its answer as it should: its state says which. An
            // error is not kept, since the task's own is given out again.
            (outcome, None) => {
                self.early_ends += 1;
                if self.early_ends <= EARLY_ENDS {
                    self.early = outcome.ok();
                    self.pace.hurry();
                }
                None
            }
        }
    }

    async fn answered(&mut self, due: Due) -> Option<Ending> {
        self.asking.go_on(due, self.report).await;
        None
    }

    fn input(&mut self, news: News) -> Option<Ending> {
        match news {
            News::Answered(key, Some(answer)) => self.deliver(key, answer),
            News::Answered(_, None) => {
                return Some(self.given_up("The client did not answer the server's question"));
            }
            News::Delivered(Ok(_)) => self.pace.hurry(),
            News::Delivered(Err(failure)) if is_of_connection(&failure) => return self.failed(&failure),
            // It is tried again when the question is still open.
            News::Delivered(Err(failure)) => tracing::debug!(%failure, "an answer was not taken"),
        }
        None
    }

    fn deliver(&mut self, key: String, answer: Payload) {
        let params = answered(&self.handle.id, &key, &answer).ok();
        let call = self.line.call(method::TASKS_UPDATE, params.as_deref(), true);
        self.inputs.sent(key, answer, call.outcome());
    }

    /// Something was said that is no answer.
    fn heard(&mut self, said: Option<Heard>, token: Option<&Id>) -> Option<Ending> {
        match said {
            None => return Some(lost("it has ended")),
            Some(Heard::Notification { method, params: Some(params) }) if method == method::TASK_STATUS => {
                if hosted::told_of(&params).is_some_and(|id| id == self.handle.id) {
                    self.pace.hurry();
                }
            }
            // "The progressToken provided in the initial request remains valid throughout the task lifetime."
            Some(Heard::Notification { method, params: Some(params) }) if method == method::PROGRESS => {
                if token.is_some_and(|token| meta::is_progress_of(&params, token)) {
                    self.report.progress(progress_line(&params), params);
                }
            }
            Some(Heard::Notification { .. }) => {}
            Some(Heard::Missed(_)) => self.pace.hurry(),
        }
        None
    }

    /// A question about the task has failed.
    fn failed(&mut self, failure: &CallFailure) -> Option<Ending> {
        match failure {
            failure if is_of_connection(failure) => Some(lost(&failure.to_string())),
            CallFailure::Rpc(error) => {
                let (code, message) = (translate::code_of(error), message_of(error));
                let is = |known: ErrorCode| code == Some(known.number().into());
                if is(ErrorCode::InvalidParams) {
                    self.is_forgotten = true;
                    let why = format!("The server no longer knows the task it made of this call: {message}");
                    return Some(failed_with(&why));
                }
                if is(ErrorCode::MethodNotFound) {
                    return Some(failed_with(&format!("The server cannot be asked for its task: {message}")));
                }
                self.puzzled(&message)
            }
            // Its server may be there again later, and the task may still go on.
            CallFailure::Request(failure) if failure.kind == FailureKind::Interrupted => {
                if self.pace.puzzled() { None } else { Some(lost(&failure.to_string())) }
            }
            other => self.puzzled(&other.to_string()),
        }
    }

    /// The server has said nothing that makes sense. It is asked again, but not for ever.
    fn puzzled(&mut self, what: &str) -> Option<Ending> {
        if self.pace.puzzled() {
            tracing::debug!(what, "a server does not say how its task stands");
            return None;
        }
        Some(self.given_up(&format!("The server does not say how its task stands: {what}")))
    }

    /// The task is not followed any more, so it must not go on.
    fn given_up(&self, why: &str) -> Ending {
        self.line.let_go_of(&self.handle.id);
        failed_with(why)
    }
}

/// The params that bring an answer, which stays as it was spelled.
fn answered(id: &str, key: &str, answer: &Payload) -> Result<Box<RawValue>, InvalidPayload> {
    let (mut params, mut answers) = (RawObject::default(), RawObject::default());
    answers.set(key, answer.as_raw().to_owned());
    params.set("taskId", to_raw_value(id)?);
    params.set("inputResponses", answers.to_raw()?);
    params.to_raw()
}

/// Whether nothing more can be asked on this connection.
fn is_of_connection(failure: &CallFailure) -> bool {
    match failure {
        CallFailure::Closed(_) => true,
        CallFailure::Request(failure) => failure.is_of_connection(),
        _ => false,
    }
}

fn lost(reason: &str) -> Ending {
    Ending::Lost { message: format!("The connection to the server was lost: {reason}") }
}
