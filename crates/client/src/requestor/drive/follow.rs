//! Following a task to its end. Its state is asked for at the server's interval; what the server says by itself only makes
//! that happen sooner.

use std::sync::Arc;
use std::time::Duration;

use taskgate_task::Payload;
use taskgate_wire::dialect::d2025_10_20;
use taskgate_wire::hosted::{self, HostedStatus, HostedTask};
use taskgate_wire::{Dialect, ErrorCode, Id, meta, method};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::connect::{Connection, Era};
use super::super::error::{CallError, RpcFailure};
use super::super::event::{Event, Progress, TaskState};
use super::super::handle::Handle;
use super::super::pace::Rhythm;
use super::ends::{is_missing, with_result, without_result};
use super::first::Original;
use super::questions::Answered;
use super::retries::Retries;
use super::{Driver, cancelled, final_result, is_of_connection, sleep_until};
use crate::FailureKind;
use crate::session::{CallEvent, CallFailure, Heard, Notifications, PendingCall};

/// How often the wait for a result may end before the task has; after that nothing is concluded from it any more.
const EARLY_ENDS: u32 = 3;
/// How long a task may go on after its server has taken note that it is cancelled (2026-07-28).
const WINDING_DOWN: Duration = Duration::from_secs(5);

/// What is followed, and what is known of it.
pub(super) struct Start {
    /// Where.
    pub(super) connection: Arc<Connection>,
    /// The task.
    pub(super) handle: Handle,
    /// What its server said when it made it; `None` if that was in another life.
    pub(super) first: Option<HostedTask>,
    /// The call itself, which is answered, too (2025-10-20).
    pub(super) original: Original,
    /// The token under which it may report progress.
    pub(super) token: Option<Id>,
    /// What the server says apart from calls, from the time before the task was made.
    pub(super) heard: Notifications,
}

/// What comes next: the end, or nothing yet.
pub(super) type Step = Option<Result<Payload, CallError>>;

pub(super) struct Following<'a> {
    pub(super) driver: &'a mut Driver,
    retries: &'a mut Retries,
    connection: Arc<Connection>,
    dialect: Dialect,
    /// Whether it is spoken of as in 2025-10-20, and the call that is the task, while this connection has it.
    pub(super) is_first: bool,
    pub(super) original: Original,
    handle: Handle,
    token: Option<Id>,
    heard: Notifications,
    rhythm: Rhythm,
    /// `tasks/get`, if one is under way.
    state: Option<PendingCall>,
    /// `tasks/result`, if one is under way (2025-11-25).
    result: Option<PendingCall>,
    /// How the last one ended, when the task had not, as far as was known.
    early: Option<Payload>,
    early_ends: u32,
    /// Whether the task has ended and only its result is missing.
    pub(super) is_over: bool,
    /// The subscription to the task (2026-07-28), and whether one has brought anything, so that it is worth another.
    listening: Option<PendingCall>,
    was_told: bool,
    /// How it stood when it was asked about last.
    pub(super) last: Option<HostedTask>,
    /// Whether it is to be cancelled, `tasks/cancel`, if one is under way, and until when the task is believed to be winding
    /// down.
    is_cancelled: bool,
    cancelling: Option<PendingCall>,
    winding_down: Option<Instant>,
    /// Answers on their way (2026-07-28), and those that did not arrive.
    delivering: JoinSet<(String, Payload, Result<Payload, CallFailure>)>,
    undelivered: Vec<Undelivered>,
}

/// An answer that the server has not taken.
struct Undelivered {
    key: String,
    answer: Payload,
    /// What it had against it, if it said so.
    refused: Option<RpcFailure>,
}

impl Driver {
    /// Follows a task to its end.
    pub(super) async fn follow(&mut self, start: Start, retries: &mut Retries) -> Result<Payload, CallError> {
        let Start { connection, handle, first, original, token, heard } = start;
        let dialect = connection.dialect_for(&handle).ok_or_else(no_tasks)?;
        let is_first = connection.speaks_first(&handle);
        let mut rhythm = Rhythm::new(self.inner.pace, first.as_ref().and_then(|task| task.poll_interval));
        if first.as_ref().is_none_or(|task| task.status != HostedStatus::Working) {
            rhythm.hurry();
        }
        retries.reset();
        self.questions.of_task();
        let held = (first.is_some() || original.is_there()).then(|| connection.clone());
        let mut following = Following {
            driver: self,
            retries,
            connection,
            dialect,
            is_first,
            original,
            handle,
            token,
            heard,
            rhythm,
            state: None,
            result: None,
            early: None,
            early_ends: 0,
            is_over: false,
            listening: None,
            was_told: false,
            last: None,
            is_cancelled: false,
            cancelling: None,
            winding_down: None,
            delivering: JoinSet::new(),
            undelivered: Vec::new(),
        };
        following.listen();
        if let Some(first) = first {
            following.tell(&first, None);
        }
        let end = following.run().await;
        let is_over = match &end {
            Ok(_) => true,
            Err(error) => matches!(
                error,
                CallError::Failed { .. } | CallError::Cancelled { .. } | CallError::Expired { .. }
            ),
        };
        if let Some(connection) = held.filter(|_| is_over) {
            connection.holds_session(false);
        }
        end
    }
}

fn no_tasks() -> CallError {
    CallError::Unsupported("it speaks no version that has tasks".to_owned())
}

async fn next_of(call: &mut Option<PendingCall>) -> CallEvent {
    match call {
        Some(call) => call.next().await,
        None => std::future::pending().await,
    }
}

impl Following<'_> {
    async fn run(&mut self) -> Result<Payload, CallError> {
        loop {
            let due = self.rhythm.due();
            let step = tokio::select! {
                biased;
                event = self.original.next() => self.heard_original(event).await,
                event = next_of(&mut self.state) => self.heard_state(event).await,
                event = next_of(&mut self.result) => self.heard_result(event).await,
                event = next_of(&mut self.cancelling) => self.heard_cancelled(event).await,
                Some(delivered) = self.delivering.join_next() => match delivered {
                    Ok((key, answer, taken)) => self.delivered(key, answer, taken).await,
                    Err(_) => None,
                },
                answered = self.driver.questions.next() => self.deliver(answered),
                said = self.heard.next() => self.heard(said).await,
                event = next_of(&mut self.listening) => self.heard_listening(event),
                () = cancelled(&mut self.driver.orders), if !self.is_cancelled => self.cancel(),
                () = sleep_until(self.winding_down), if self.winding_down.is_some() => {
                    Some(Err(CallError::Cancelled { message: None }))
                }
                () = sleep_until(due) => {
                    self.state = Some(self.connection.about_this(method::TASKS_GET, &self.handle));
                    self.rhythm.asked();
                    None
                }
            };
            if let Some(end) = step {
                return end;
            }
        }
    }

    /// Asks to be told when the task changes (2026-07-28). A server that does not want to is just asked.
    fn listen(&mut self) {
        if self.dialect != Dialect::D2026_07_28 {
            return;
        }
        let filter = serde_json::json!({ "notifications": { "taskIds": [&self.handle.task] } });
        let filter = serde_json::value::to_raw_value(&filter).ok();
        self.listening = Some(self.connection.call(method::LISTEN, filter.as_deref(), true));
    }

    /// Goes on over another connection. The task is asked about by its id; the tool is not called again.
    pub(super) async fn reconnect(&mut self, why: String) -> Step {
        self.original.let_go();
        (self.state, self.result, self.listening) = (None, None, None);
        (self.was_told, self.early) = (false, None);
        let was_cancelling = self.cancelling.take().is_some();
        self.driver.questions.stream_ended();
        let handle = self.handle.clone();
        let era = Era::of(&handle.version);
        if let Err(end) = self.driver.pause(self.retries, why, Some(&handle)).await {
            return Some(Err(end));
        }
        let connection = match self.driver.connected(era, self.retries, Some(&handle)).await {
            Ok(connection) => connection,
            Err(end) => return Some(Err(end)),
        };
        let Some(dialect) = connection.dialect_for(&handle) else { return Some(Err(no_tasks())) };
        self.dialect = dialect;
        self.is_first = connection.speaks_first(&handle);
        self.heard = connection.session.notifications();
        self.connection = connection;
        // What is said under a token is said on the connection of its call.
        self.token = None;
        self.rhythm = Rhythm::new(self.driver.inner.pace, None);
        self.rhythm.hurry();
        self.listen();
        if was_cancelling { self.cancel() } else { None }
    }

    async fn heard_state(&mut self, event: CallEvent) -> Step {
        let outcome = self.driver.heard(event)?;
        self.state = None;
        let answer = match outcome {
            Ok(answer) => answer,
            Err(CallFailure::Rpc(_)) if self.original.is_there() => {
                // The call is answered all the same.
                self.rhythm.stop();
                return None;
            }
            Err(failure) => return self.failed(failure).await,
        };
        let state = match self.is_first {
            true => d2025_10_20::requestor::hosted(&answer),
            false => hosted::state(self.dialect, &answer),
        };
        match state {
            Some(task) => self.stands(task, answer),
            None => self.puzzled("its answer is no object"),
        }
    }

    /// Tells how the task stands.
    fn tell(&self, task: &HostedTask, answer: Option<Payload>) {
        let raw = answer.unwrap_or_else(Payload::null);
        let state = TaskState::new(self.handle.task.clone(), task, raw, self.rhythm.next_poll());
        self.driver.feed.push(Event::Status(state));
    }

    /// What follows from where the task stands.
    fn stands(&mut self, task: HostedTask, answer: Payload) -> Step {
        if let HostedStatus::Unknown(word) = &task.status
            && !(self.is_first && d2025_10_20::requestor::is_lost(&task.status))
        {
            let word: String = word.chars().take(100).collect();
            return self.puzzled(&format!("its status is not known: {word}"));
        }
        self.retries.reset();
        self.rhythm.answered(task.poll_interval);
        if matches!(task.status, HostedStatus::Completed | HostedStatus::Failed | HostedStatus::Cancelled) {
            self.rhythm.stop();
        }
        self.tell(&task, Some(answer));
        self.last = Some(task.clone());
        if self.is_first {
            return self.stands_first(task);
        }
        let early = self.early.take();
        match (task.status, self.dialect) {
            (HostedStatus::Cancelled, _) => Some(Err(CallError::Cancelled { message: task.message })),
            (HostedStatus::Completed | HostedStatus::Failed, Dialect::D2025_11_25) => {
                self.is_over = true;
                match early {
                    Some(result) => Some(with_result(self.last.as_ref(), result)),
                    None => self.open_result(),
                }
            }
            (HostedStatus::Completed, Dialect::D2026_07_28) => Some(match task.result {
                Some(result) => final_result(result),
                None => Err(CallError::InvalidResponse("the task is completed and has no result".to_owned())),
            }),
            (status @ HostedStatus::Failed, Dialect::D2026_07_28) => Some(Err(CallError::Failed {
                status,
                message: task.message,
                error: task.error.map(RpcFailure::read),
            })),
            (HostedStatus::InputRequired, Dialect::D2025_11_25) => self.open_result(),
            (_, Dialect::D2025_11_25) => {
                self.driver.questions.settled();
                None
            }
            (_, Dialect::D2026_07_28) => {
                let asked = task.input_requests;
                if let Err(why) = self.driver.questions.listed(asked.as_ref()) {
                    return Some(self.given_up(CallError::InputRefused(why)));
                }
                // An answer that did not arrive is sent again while its question is still there.
                for Undelivered { key, answer, refused } in std::mem::take(&mut self.undelivered) {
                    match refused {
                        _ if !asked.as_ref().is_some_and(|asked| is_listed(asked, &key)) => {}
                        None => self.send_answer(key, answer),
                        Some(error) => {
                            let why = format!("the server did not take the answer to {key:?}: {error}");
                            return Some(self.given_up(CallError::InputRefused(why)));
                        }
                    }
                }
                None
            }
        }
    }

    /// Waits for the result: that is also how the questions of a task arrive.
    pub(super) fn open_result(&mut self) -> Step {
        if self.result.is_none() {
            self.result = Some(self.connection.about_this(method::TASKS_RESULT, &self.handle));
        }
        None
    }

    async fn heard_result(&mut self, event: CallEvent) -> Step {
        let outcome = self.driver.heard(event)?;
        self.result = None;
        self.driver.questions.stream_ended();
        match outcome {
            Ok(result) if self.is_over => Some(with_result(self.last.as_ref(), result)),
            Err(CallFailure::Rpc(error)) if self.is_over => {
                Some(without_result(self.last.as_ref(), error, &self.handle))
            }
            Err(failure) if is_of_connection(&failure) => self.reconnect(failure.to_string()).await,
            Err(failure) if self.is_over => {
                // Its result is still there: it is asked for again, after the state.
                self.is_over = false;
                self.rhythm = Rhythm::new(self.driver.inner.pace, None);
                self.lost(failure).await
            }
            // The only way for its questions.
            Err(CallFailure::Rpc(error)) if is_missing(&RpcFailure::read(error.clone())) => {
                let why = "it has no tasks/result, so its task can neither ask nor answer".to_owned();
                Some(self.given_up(CallError::Unsupported(why)))
            }
            // The task may have ended, or the server may not wait with its answer as it should: its state says which. An
            // error is not kept, since the task's own is given out again.
            outcome => {
                self.early_ends += 1;
                if self.early_ends <= EARLY_ENDS {
                    self.early = outcome.ok();
                    self.rhythm.hurry();
                }
                None
            }
        }
    }

    /// Tells the server that the task is not wanted any more.
    fn cancel(&mut self) -> Step {
        self.is_cancelled = true;
        if self.is_first {
            return self.cancel_first();
        }
        self.cancelling = Some(self.connection.about(method::TASKS_CANCEL, &self.handle.task));
        None
    }

    /// The server knows that the task is not wanted any more: it is believed to be ending.
    pub(super) fn winds_down(&mut self) {
        self.winding_down = Instant::now().checked_add(WINDING_DOWN);
        self.rhythm.hurry();
    }

    /// There is nothing but the state of the task to go by.
    pub(super) fn only_asks(&mut self) {
        self.rhythm = Rhythm::new(self.driver.inner.pace, None);
        self.rhythm.hurry();
    }

    async fn heard_cancelled(&mut self, event: CallEvent) -> Step {
        let CallEvent::Done(outcome) = event else { return None };
        self.cancelling = None;
        match outcome {
            Ok(_) => {}
            Err(CallFailure::Rpc(error)) => {
                let error = RpcFailure::read(error);
                if is_missing(&error) {
                    return Some(Err(CallError::Unsupported("it knows no way to cancel a task".to_owned())));
                }
                // It was over before, perhaps: its state says.
            }
            Err(failure) if is_of_connection(&failure) => {
                let step = self.reconnect(failure.to_string()).await;
                return if step.is_none() { self.cancel() } else { step };
            }
            Err(failure) => tracing::debug!(%failure, "a task may not have been cancelled"),
        }
        if !self.is_over {
            self.winds_down();
        }
        None
    }

    /// There is an answer to a question of the server's list.
    fn deliver(&mut self, Answered { key, answer }: Answered) -> Step {
        match answer {
            Ok(answer) => {
                self.send_answer(key, answer);
                None
            }
            // There are no words for no, and the task would wait for ever.
            Err(why) => Some(self.given_up(CallError::InputRefused(why))),
        }
    }

    fn send_answer(&mut self, key: String, answer: Payload) {
        let params =
            serde_json::json!({ "taskId": self.handle.task, "inputResponses": { key.as_str(): &answer } });
        let params = serde_json::value::to_raw_value(&params).ok();
        let taken = self.connection.call(method::TASKS_UPDATE, params.as_deref(), true).outcome();
        self.delivering.spawn(async move { (key, answer, taken.await) });
    }

    async fn delivered(&mut self, key: String, answer: Payload, taken: Result<Payload, CallFailure>) -> Step {
        match taken {
            Ok(_) => {
                if let Err(error) = self.driver.account.answered(&key).await {
                    tracing::warn!(%error, "an answer was not noted");
                }
                self.driver.feed.push(Event::Answered(key));
                self.rhythm.hurry();
                None
            }
            // What follows from it the state of the task says: whether its question is still there.
            Err(failure) => {
                let refused = match failure {
                    CallFailure::Rpc(error) => Some(RpcFailure::read(error)),
                    _ => None,
                };
                self.undelivered.push(Undelivered { key, answer, refused });
                self.rhythm.hurry();
                None
            }
        }
    }

    /// Something was said that is no answer.
    async fn heard(&mut self, said: Option<Heard>) -> Step {
        match said {
            None => return self.reconnect("the connection has ended".to_owned()).await,
            Some(Heard::Notification { method, params: Some(params) }) if method == method::TASK_STATUS => {
                if hosted::told_of(&params).is_some_and(|task| task == self.handle.task) {
                    self.rhythm.hurry();
                }
            }
            // "The progressToken provided in the initial request remains valid throughout the task lifetime."
            Some(Heard::Notification { method, params: Some(params) }) if method == method::PROGRESS => {
                if self.token.as_ref().is_some_and(|token| meta::is_progress_of(&params, token)) {
                    self.driver.feed.push(Event::Progress(Progress::read(params)));
                }
            }
            Some(Heard::Notification { method, params: Some(params) }) if method == method::LOG_MESSAGE => {
                self.driver.feed.push(Event::Log(params));
            }
            Some(Heard::Notification { .. }) => {}
            Some(Heard::Missed(_)) => self.rhythm.hurry(),
        }
        None
    }

    fn heard_listening(&mut self, event: CallEvent) -> Step {
        match event {
            CallEvent::Notification { method, .. } if method == method::TASK_NOTIFICATION => {
                self.was_told = true;
                self.rhythm.hurry();
            }
            CallEvent::Notification { .. } => self.was_told = true,
            // What stands between us and the server has cut it off. What was missed is asked for.
            CallEvent::Done(Err(CallFailure::Request(failure)))
                if self.was_told && !failure.is_of_connection() =>
            {
                self.was_told = false;
                self.listen();
                self.rhythm.hurry();
            }
            CallEvent::Done(_) => self.listening = None,
            _ => {}
        }
        None
    }

    /// A question about the task has failed.
    async fn failed(&mut self, failure: CallFailure) -> Step {
        let CallFailure::Rpc(error) = failure else { return self.lost(failure).await };
        let error = RpcFailure::read(error);
        if error.code == i64::from(ErrorCode::InvalidParams.number()) {
            return Some(Err(CallError::Expired { handle: Box::new(self.handle.clone()) }));
        }
        if is_missing(&error) {
            return Some(Err(CallError::Unsupported(format!("it cannot be asked for its task: {error}"))));
        }
        self.puzzled(&error.to_string())
    }

    /// There was no answer. The server may be there again later, and the task goes on.
    async fn lost(&mut self, failure: CallFailure) -> Step {
        if is_of_connection(&failure) {
            return self.reconnect(failure.to_string()).await;
        }
        match failure {
            CallFailure::Request(failure) if failure.kind == FailureKind::Interrupted => {
                let handle = self.handle.clone();
                self.rhythm.unanswered();
                let paused = self.driver.pause(self.retries, failure.what, Some(&handle)).await;
                self.rhythm.hurry();
                paused.err().map(Err)
            }
            CallFailure::Request(failure) if failure.kind == FailureKind::Refused => {
                Some(Err(CallError::Refused(failure.what)))
            }
            failure => self.puzzled(&failure.to_string()),
        }
    }

    /// The server has said nothing that makes sense. It is asked again, but not for ever.
    fn puzzled(&mut self, what: &str) -> Step {
        if self.rhythm.puzzled() {
            tracing::debug!(what, "a server does not say how its task stands");
            return None;
        }
        let why = format!("the server does not say how its task stands: {what}");
        Some(Err(CallError::InvalidResponse(why)))
    }

    /// The task cannot go on, and must not wait for ever.
    fn given_up(&mut self, why: CallError) -> Result<Payload, CallError> {
        if self.is_first {
            self.original.cancel();
        } else {
            self.connection.let_go_of(&self.handle.task);
        }
        Err(why)
    }
}

/// Whether a question is still in the server's list.
fn is_listed(asked: &Payload, key: &str) -> bool {
    taskgate_wire::RawObject::parse(asked.as_str()).is_ok_and(|asked| asked.get(key).is_some())
}
