//! The questions of a job: seen in its state, answered by a request.

use std::collections::HashSet;
use std::task::Poll;

use futures_util::FutureExt;
use serde_json::{Value, json};
use taskgate_engine::{Answered, Report};
use taskgate_job::Asked;
use taskgate_task::{Payload, Question};
use taskgate_wire::method;
use tokio::sync::oneshot;

use crate::upstream::asking::Whom;

/// A job that asks more often than this asks nobody in particular.
const MOST_QUESTIONS: usize = 1024;

/// The questions of one job, as far as they were seen by this run.
#[derive(Default)]
pub struct Ask {
    known: HashSet<String>,
    asked: usize,
    out: Vec<(String, oneshot::Receiver<Answered>)>,
    /// Answers that the API has not taken yet, by the keys of their questions.
    pub undelivered: Vec<(String, Value)>,
}

impl Ask {
    /// Takes in what is asked now: asks it if it is new, takes back what is asked no more.
    ///
    /// # Errors
    ///
    /// Why the job cannot be followed any more: nobody can be asked.
    pub async fn listed(
        &mut self,
        asked: Option<&Asked>,
        whom: &Whom,
        report: &Report,
    ) -> Result<(), String> {
        let before = self.out.len();
        self.out.retain(|(key, _)| asked.is_some_and(|asked| asked.key == *key));
        if self.out.len() < before
            && let Err(error) = report.take_back().await
        {
            tracing::debug!(%error, "a question could not be taken back");
        }
        let Some(asked) = asked.filter(|asked| !self.known.contains(&asked.key)) else { return Ok(()) };
        if self.asked >= MOST_QUESTIONS {
            return Err("The job does not stop asking for input".to_owned());
        }
        let question = question(asked)?;
        whom.allows(&question.method, question.params.as_ref(), report)?;
        self.known.insert(asked.key.clone());
        self.asked += 1;
        match report.ask(vec![question]).await {
            Ok(answers) => self.out.extend(answers.into_iter().map(|answer| (asked.key.clone(), answer))),
            // The task has ended meanwhile, and this run with it.
            Err(error) => tracing::debug!(%error, "a question came too late"),
        }
        Ok(())
    }

    /// The API will not have an answer. If it is one that somebody gave, and the question stays, it is asked again.
    pub fn refused(&mut self, key: &str, answer: &Value) {
        if answer["action"] == "accept" {
            self.known.remove(key);
        }
    }

    /// Resolves when a question has been answered; never, if none is out. Nothing is lost if it is dropped before.
    pub async fn next(&mut self) {
        let (index, answer) = std::future::poll_fn(|context| {
            let mut out = self.out.iter_mut().enumerate();
            let found = out.find_map(|(index, (_, answer))| match answer.poll_unpin(context) {
                Poll::Ready(answer) => Some((index, answer)),
                Poll::Pending => None,
            });
            found.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let (key, _) = self.out.swap_remove(index);
        self.undelivered.push((key, answer_of(answer.ok())));
    }
}

fn question(asked: &Asked) -> Result<Question, String> {
    let schema = asked.schema.clone().unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
    let params = json!({ "mode": "form", "message": asked.message, "requestedSchema": schema });
    let params = Payload::from_value(&params)
        .map_err(|error| format!("The job's question cannot be read: {error}"))?;
    Ok(Question { key: asked.key.clone(), method: method::ELICIT.to_owned(), params: Some(params) })
}

/// What the API is told. Whoever could not answer has cancelled, as far as it is concerned.
fn answer_of(answer: Option<Answered>) -> Value {
    let said =
        answer.and_then(Result::ok).and_then(|answer| serde_json::from_str::<Value>(answer.as_str()).ok());
    let said = said.unwrap_or_default();
    let action = said.get("action").and_then(Value::as_str).unwrap_or("cancel");
    let content = said.get("content").filter(|content| content.is_object()).cloned();
    json!({ "action": action, "content": content.unwrap_or_else(|| json!({})) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_an_action_and_a_content() {
        let payload = |value: Value| Payload::from_value(&value).expect("JSON");
        let cancelled = json!({"action": "cancel", "content": {}});
        for (answer, expected) in [
            (
                Some(Ok(payload(json!({"action": "accept", "content": {"a": 1}})))),
                json!({"action": "accept", "content": {"a": 1}}),
            ),
            (Some(Ok(payload(json!({"action": "decline"})))), json!({"action": "decline", "content": {}})),
            (Some(Ok(Payload::null())), cancelled.clone()),
            (Some(Err(payload(json!({"code": -1, "message": "no"})))), cancelled.clone()),
            (None, cancelled),
        ] {
            assert_eq!(answer_of(answer), expected);
        }
    }
}
