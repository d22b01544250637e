use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::auth::Auth;
use crate::request::{Codes, RequestTemplate};
use crate::template::Expression;

/// How jobs of one kind are started, looked at, fetched and cancelled.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// Settings that templates can use.
    pub with: Map<String, Value>,
    /// Who we are.
    pub auth: Auth,
    /// How a job is started.
    pub start: Start,
    /// How a job is looked at.
    pub status: Status,
    /// What else is asked at each look, if anything.
    pub detail: Option<Detail>,
    /// How its result is found.
    pub result: ResultOf,
    /// How it is found why it failed, if not in the last look.
    pub failure: Option<ResultOf>,
    /// How it is cancelled, if it can be.
    pub cancel: Option<Cancel>,
    /// What it has written, if that can be seen.
    pub logs: Option<Logs>,
    /// What it asks and how it is answered, if it does.
    pub question: Option<Question>,
}

impl Declaration {
    /// All its requests.
    pub fn requests(&self) -> impl Iterator<Item = &RequestTemplate> {
        let optional = [
            self.detail.as_ref().map(|detail| &detail.request),
            self.result.request.as_ref(),
            self.failure.as_ref().and_then(|failure| failure.request.as_ref()),
            self.cancel.as_ref().map(|cancel| &cancel.request),
            self.logs.as_ref().map(|logs| &logs.request),
            self.question.as_ref().map(|question| &question.answer),
        ];
        [&self.start.request, &self.status.request].into_iter().chain(optional.into_iter().flatten())
    }
}

/// Names, and where their values are found.
pub type Extract = Vec<(String, Expression)>;

/// How a job is started.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// The request.
    pub request: RequestTemplate,
    /// What is kept of the answer, to find the job again.
    pub job: Extract,
    /// Whether the same request with the same key starts nothing a second time.
    pub is_idempotent: bool,
    /// Codes that say that this key was started before.
    pub exists: Codes,
    /// What must hold besides, where one of these codes can mean something else.
    pub exists_if: Option<Expression>,
    /// What is kept then; [`Start::job`] if it is empty.
    pub exists_job: Extract,
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It is under way, or will be.
    Working,
    /// It waits for an answer.
    InputRequired,
    /// It has a result.
    Completed,
    /// It has none.
    Failed,
    /// Somebody has cancelled it.
    Cancelled,
}

/// How a job is looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// The request.
    pub request: RequestTemplate,
    /// The API's word for where the job stands.
    pub state: Expression,
    /// What its words mean.
    pub states: BTreeMap<String, JobState>,
    /// A line for people.
    pub message: Option<Expression>,
    /// How far it is.
    pub progress: Option<Expression>,
    /// Of how much.
    pub total: Option<Expression>,
    /// Why it failed.
    pub error: Option<Expression>,
    /// The pause between two looks, at first.
    pub poll: Duration,
    /// The longest pause, when nothing changes.
    pub poll_max: Duration,
}

/// What else is asked at each look. The job is seen without its answer, too.
#[derive(Debug, Clone, PartialEq)]
pub struct Detail {
    /// The request.
    pub request: RequestTemplate,
    /// When it is made, by what the look has shown; without it, always.
    pub when: Option<Expression>,
}

/// How a result is found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResultOf {
    /// The request; without one the last look is the answer that has it.
    pub request: Option<RequestTemplate>,
    /// The result itself; without it the whole body.
    pub value: Option<Expression>,
}

/// How a job is cancelled.
#[derive(Debug, Clone, PartialEq)]
pub struct Cancel {
    /// The request.
    pub request: RequestTemplate,
    /// Codes that say that there is nothing to cancel any more.
    pub gone: Codes,
    /// What must hold besides, where one of these codes can mean something else.
    pub gone_if: Option<Expression>,
}

/// How one sees what a job has written.
#[derive(Debug, Clone, PartialEq)]
pub struct Logs {
    /// The request.
    pub request: RequestTemplate,
    /// The lines: texts in a list, or one text.
    pub lines: Option<Expression>,
}

/// What a job asks, in the answer to a look, and how it is answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What tells one question from the next.
    pub key: Expression,
    /// The question, for people.
    pub message: Expression,
    /// The JSON Schema of the answer.
    pub schema: Option<Expression>,
    /// The request that answers.
    pub answer: RequestTemplate,
}
