use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use minijinja::Value;
use serde_json::{Map, Value as Json};
use taskgate_reach::Origin;

use crate::answer::Answer;
use crate::declaration::{Declaration, Extract, JobState};
use crate::engine::value_of;
use crate::failure::{Failure, Refusal};
use crate::http::Http;
use crate::request::RequestTemplate;
use crate::template::{Expression, Fault};

/// A job API as it was declared. Cheap to clone.
#[derive(Debug, Clone)]
pub struct JobApi {
    declaration: Arc<Declaration>,
    http: Http,
    with: Value,
    /// The places that the declaration names.
    written: Arc<[Origin]>,
}

/// What stays the same for all requests about one job.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The arguments of the call.
    pub args: Json,
    /// Unguessable, and the job's alone: starting with it twice starts one job where the API sees to that.
    pub key: String,
    /// Where the API can say that there is news, if it can reach us.
    pub callback_url: Option<String>,
}

/// What a start has come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    /// What finds the job again.
    pub job: Map<String, Json>,
    /// Whether the job was there before.
    pub is_old: bool,
}

/// What a look has shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// The API's own word.
    pub word: String,
    /// What it means; `None` if nobody has said so.
    pub state: Option<JobState>,
    /// A line for people.
    pub message: Option<String>,
    /// How far it is.
    pub progress: Option<Json>,
    /// Of how much.
    pub total: Option<Json>,
    /// Why it failed.
    pub error: Option<Json>,
    /// What it asks.
    pub asked: Option<Asked>,
    /// After how long it wants to be looked at again.
    pub retry_after: Option<Duration>,
    answer: Answer,
    detail: Value,
}

/// A question of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// What tells it from the next.
    pub key: String,
    /// The question, for people.
    pub message: String,
    /// The JSON Schema of the answer.
    pub schema: Option<Json>,
}

impl Seen {
    fn details(&self) -> [(&'static str, Value); 1] {
        [("detail", self.detail.clone())]
    }
}

impl JobApi {
    /// The API of this declaration, over these connections.
    pub fn new(declaration: Declaration, http: Http) -> JobApi {
        let with = value_of(&declaration.with);
        let settings = Value::from_pairs([("with", with.clone())]);
        let written =
            declaration.requests().filter_map(|request| request.url.settled_origin(&settings)).collect();
        JobApi { declaration: Arc::new(declaration), http, with, written }
    }

    /// What was declared.
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// Whether a job could be started with this call, as far as that is seen without asking anybody.
    ///
    /// # Errors
    ///
    /// What is missing in it.
    pub fn check(&self, call: &Call) -> Result<(), Failure> {
        self.declaration.start.request.prepare(&self.values(call, None, [])).map(drop)
    }

    /// Starts a job, once. Which failures leave it open whether there is one, [`Failure::did_nothing`] says.
    ///
    /// # Errors
    ///
    /// Why there may be none.
    pub async fn start(&self, call: &Call) -> Result<Started, Failure> {
        let start = &self.declaration.start;
        let values = || self.values(call, None, []);
        let answer = self.send(&start.request, values()).await?;
        let is_old = start.exists.has(answer.code) && self.holds(&start.exists_if, &answer);
        if !is_old {
            self.refused_unless(&start.request, &answer)?;
        }
        let extract = if is_old && !start.exists_job.is_empty() { &start.exists_job } else { &start.job };
        let job = extracted(extract, &self.values(call, None, answer.values()))
            .map_err(|why| answer.lacks(start.request.name, &why))?;
        Ok(Started { job, is_old })
    }

    /// Looks where a job stands.
    ///
    /// # Errors
    ///
    /// Why that cannot be seen.
    pub async fn look(&self, call: &Call, job: &Map<String, Json>) -> Result<Seen, Failure> {
        let status = &self.declaration.status;
        let answer = self.asked(&status.request, self.values(call, Some(job), [])).await?;
        let detail = self.detail(call, job, &answer).await;
        let found = answer.values().into_iter().chain([("detail", detail.clone())]);
        let values = self.values(call, Some(job), found);
        let unreadable = |fault: Fault| answer.lacks(status.request.name, &fault.to_string());
        let word = status.state.required(&values).map_err(unreadable)?;
        let word = text_of(&word);
        let optional = |expression: &Option<Expression>| expression.as_ref()?.optional(&values);
        let state = status.states.get(&word).copied();
        let mut asked = None;
        if let (Some(JobState::InputRequired), Some(question)) = (state, &self.declaration.question) {
            let required = |expression: &Expression| {
                expression.required(&values).map(|value| text_of(&value)).map_err(unreadable)
            };
            let (key, message) = (required(&question.key)?, required(&question.message)?);
            asked = Some(Asked { key, message, schema: optional(&question.schema) });
        }
        Ok(Seen {
            state,
            word,
            message: optional(&status.message).map(|value| text_of(&value)),
            progress: optional(&status.progress),
            total: optional(&status.total),
            error: optional(&status.error),
            asked,
            retry_after: answer.retry_after(),
            answer,
            detail,
        })
    }

    /// What else is known of a job; an empty map if that cannot be seen.
    async fn detail(&self, call: &Call, job: &Map<String, Json>, seen: &Answer) -> Value {
        let nothing = || value_of(&Map::new());
        let Some(detail) = &self.declaration.detail else { return nothing() };
        let values = || self.values(call, Some(job), seen.values());
        if detail.when.as_ref().is_some_and(|when| !when.holds(&values())) {
            return nothing();
        }
        match self.asked(&detail.request, values()).await {
            Ok(answer) => answer.body(),
            Err(_) => nothing(),
        }
    }

    /// Finds out why a job failed, if that takes a request of its own; nothing if it cannot be found out.
    pub async fn failure(&self, call: &Call, job: &Map<String, Json>, seen: &Seen) -> Option<Json> {
        let failure = self.declaration.failure.as_ref()?;
        let fetched = match &failure.request {
            Some(request) => {
                Some(self.asked(request, self.values(call, Some(job), seen.details())).await.ok()?)
            }
            None => None,
        };
        let values = self.values(call, Some(job), fetched.as_ref().unwrap_or(&seen.answer).values());
        failure.value.as_ref().unwrap_or(&Expression::whole_body()).optional(&values)
    }

    /// Fetches the result of a job that was seen to have one. A whole body is the text that it is, in its own spelling.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub async fn result(&self, call: &Call, job: &Map<String, Json>, seen: &Seen) -> Result<Json, Failure> {
        let result = &self.declaration.result;
        let fetched = match &result.request {
            Some(request) => Some(self.asked(request, self.values(call, Some(job), seen.details())).await?),
            None => None,
        };
        let answer = fetched.as_ref().unwrap_or(&seen.answer);
        let values = self.values(call, Some(job), answer.values());
        let Some(value) = &result.value else { return Ok(answer.whole()) };
        value.required(&values).map_err(|fault| answer.lacks("result", &fault.to_string()))
    }

    /// Cancels a job. One that is gone or was cancelled before is cancelled; `false` if this API cannot cancel any.
    ///
    /// # Errors
    ///
    /// Why it may go on.
    pub async fn cancel(&self, call: &Call, job: &Map<String, Json>) -> Result<bool, Failure> {
        let Some(cancel) = &self.declaration.cancel else { return Ok(false) };
        let answer = self.send(&cancel.request, self.values(call, Some(job), [])).await?;
        let is_gone = cancel.gone.has(answer.code) && self.holds(&cancel.gone_if, &answer);
        if !is_gone {
            self.refused_unless(&cancel.request, &answer)?;
        }
        Ok(true)
    }

    /// What a job has written until now, as lines; `None` if this API does not show any.
    ///
    /// # Errors
    ///
    /// Why that cannot be seen.
    pub async fn logs(
        &self,
        call: &Call,
        job: &Map<String, Json>,
        seen: &Seen,
    ) -> Result<Option<Vec<String>>, Failure> {
        let Some(logs) = &self.declaration.logs else { return Ok(None) };
        let answer = self.asked(&logs.request, self.values(call, Some(job), seen.details())).await?;
        let whole = Expression::whole_body();
        let found =
            logs.lines.as_ref().unwrap_or(&whole).optional(&self.values(call, Some(job), answer.values()));
        let lines = match found {
            Some(Json::Array(lines)) => lines.iter().map(text_of).collect(),
            Some(text) => text_of(&text).lines().map(str::to_owned).collect(),
            None => Vec::new(),
        };
        Ok(Some(lines))
    }

    /// Answers a question of a job: `action` is `accept`, `decline` or `cancel`.
    ///
    /// # Errors
    ///
    /// Why the answer may not have been taken.
    pub async fn answer(
        &self,
        call: &Call,
        job: &Map<String, Json>,
        key: &str,
        answer: &Json,
    ) -> Result<(), Failure> {
        let Some(question) = &self.declaration.question else { return Ok(()) };
        let answered = [("question", Value::from(key)), ("answer", value_of(answer))];
        self.asked(&question.answer, self.values(call, Some(job), answered)).await.map(drop)
    }

    fn values(
        &self,
        call: &Call,
        job: Option<&Map<String, Json>>,
        more: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Value {
        let mut values: BTreeMap<&str, Value> = more.into_iter().collect();
        values.insert("args", value_of(&call.args));
        values.insert("key", Value::from(call.key.as_str()));
        values.insert("with", self.with.clone());
        values.insert("callback_url", Value::from(call.callback_url.clone()));
        if let Some(job) = job {
            values.insert("job", value_of(job));
        }
        Value::from(values)
    }

    /// Whether a condition holds of an answer; one that was not made does.
    fn holds(&self, condition: &Option<Expression>, answer: &Answer) -> bool {
        let values =
            || answer.values().into_iter().chain([("with", self.with.clone())]).collect::<BTreeMap<_, _>>();
        condition.as_ref().is_none_or(|condition| condition.holds(&Value::from(values())))
    }

    /// An answer whose code does not mean success is a failure.
    fn refused_unless(&self, request: &RequestTemplate, answer: &Answer) -> Result<(), Failure> {
        if request.ok.is_ok(answer.code) {
            return Ok(());
        }
        let passes = request.retry_if.is_some() && self.holds(&request.retry_if, answer);
        let (code, excerpt, retry_after) = (answer.code, answer.excerpt(), answer.retry_after());
        let refusal = Refusal { code, excerpt, retry_after, passes };
        Err(Failure::Refused { request: request.name, refusal })
    }

    /// Sends a request that must be answered with success.
    async fn asked(&self, request: &RequestTemplate, values: Value) -> Result<Answer, Failure> {
        let answer = self.send(request, values).await?;
        self.refused_unless(request, &answer)?;
        Ok(answer)
    }

    /// Sends a request as ourselves. If we are not believed once, what we are believed by may have run out.
    async fn send(&self, request: &RequestTemplate, values: Value) -> Result<Answer, Failure> {
        let mut prepared = request.prepare(&values)?;
        // An answer may say where to look, as long as that is where the declaration says.
        prepared.is_written |= Origin::of(&prepared.url).is_some_and(|origin| self.written.contains(&origin));
        if !prepared.is_written {
            // Who we are is nobody else's business.
            return self.http.exchange(&prepared).await;
        }
        let auth = &self.declaration.auth;
        let mut signed = prepared.clone();
        auth.sign(&self.http, &mut signed).await?;
        let answer = self.http.exchange(&signed).await?;
        if answer.code != 401 || !auth.forget().await {
            return Ok(answer);
        }
        let mut signed = prepared;
        auth.sign(&self.http, &mut signed).await?;
        self.http.exchange(&signed).await
    }
}

/// The longest part of what finds a job again, in bytes: it is stored, and goes into every request.
const LONGEST_PART: usize = 16 << 10;
/// From here on whole numbers that JSON has as broken ones may be others than those that were sent.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn extracted(extract: &Extract, values: &Value) -> Result<Map<String, Json>, String> {
    let found = extract.iter().map(|(name, expression)| {
        let value = expression.required(values).map_err(|fault| fault.to_string())?;
        let wrong = match &value {
            Json::Null => "is null".to_owned(),
            // With another number than the API's it would be another job.
            Json::Number(number) if number.is_f64() && number.as_f64().is_none_or(|n| n.abs() >= EXACT) => {
                "is a number with more digits than are kept".to_owned()
            }
            value if text_of(value).len() > LONGEST_PART => {
                format!("is longer than {} KiB", LONGEST_PART >> 10)
            }
            _ => return Ok((name.clone(), value)),
        };
        Err(format!("`job.{name}` {wrong}"))
    });
    found.collect()
}

/// A value as a text for people and for tables of words.
fn text_of(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}
