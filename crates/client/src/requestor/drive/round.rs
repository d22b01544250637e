//! Calls of 2026-07-28 that are answered with questions and made again with the answers.

use std::time::Duration;

use taskgate_task::Payload;
use taskgate_wire::RawObject;

use super::super::error::CallError;
use super::super::event::Event;
use super::Driver;
use super::questions::Answered;

/// How long to wait before a call is made again whose answer asks nothing.
const PAUSE: Duration = Duration::from_secs(1);

/// The answers of one round, and what the server wants back with them.
pub(super) struct Round {
    pub(super) answers: Vec<(String, Payload)>,
    pub(super) state: Option<Payload>,
}

impl Driver {
    /// Gets the answers to the questions in a result.
    pub(super) async fn answer_round(&mut self, asked: Payload) -> Result<Round, CallError> {
        let object = RawObject::parse(asked.as_str())
            .map_err(|error| CallError::InvalidResponse(error.to_string()))?;
        let requests = object.get("inputRequests").filter(|raw| raw.get() != "null").map(Payload::from_raw);
        let state = object.get("requestState").filter(|raw| raw.get() != "null").map(Payload::from_raw);
        self.questions.listed(requests.as_ref()).map_err(CallError::InputRefused)?;
        let mut answers = Vec::new();
        if self.questions.listed_open() == 0 {
            self.unless_cancelled(None, tokio::time::sleep(PAUSE)).await?;
        }
        while self.questions.listed_open() > 0 {
            let Answered { key, answer } = tokio::select! {
                biased;
                () = super::cancelled(&mut self.orders) => return Err(CallError::Cancelled { message: None }),
                answered = self.questions.next() => answered,
            };
            answers.push((key, answer.map_err(CallError::InputRefused)?));
        }
        // The keys of this round mean nothing in another one, or in a task.
        self.questions.begin_list();
        Ok(Round { answers, state })
    }

    /// Tells that the server has got the answers.
    pub(super) fn round_sent(&self, round: &Round) {
        for (key, _) in &round.answers {
            self.feed.push(Event::Answered(key.clone()));
        }
    }
}
