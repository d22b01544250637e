use serde::{Deserialize, Serialize};

use crate::{Payload, Timestamp};

/// One question the work puts to the requestor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The name the asker gave it. It is kept as the task's key unless the task has used it before.
    pub key: String,
    /// What kind of request it is, for example `elicitation/create`.
    pub method: String,
    /// Its parameters, untouched.
    pub params: Option<Payload>,
}

/// A question as the task keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The key, unique over the task's whole life.
    pub key: String,
    /// The asker's own name for the question, where it differs from the key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asker_key: Option<String>,
    /// The request's method.
    pub method: String,
    /// The request's parameters.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    pub params: Option<Payload>,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// The answer, once there is one.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    pub answer: Option<Payload>,
    /// Which round of questions it belongs to, counted from 1.
    pub round: u32,
}

/// The last round of questions of work that ended its call to ask (nothing runs while it waits).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// What the runner asked to get back, untouched.
    pub state: Payload,
    /// The answers under the asker's own keys.
    pub answers: Vec<(String, Payload)>,
}

/// All questions of a task, open and answered. Keys are never reused (SEP-2663, "unique over the lifetime").
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Inputs {
    asked: Vec<Asked>,
    /// How many rounds there were. A round may have no question: then the work only wants to be called again.
    #[serde(default)]
    rounds: u32,
    /// Set while nothing runs: what the next attempt needs besides the answers.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    resume: Option<Payload>,
}

/// A member that is there is a payload, even where it says `null`: an answer of `null` is still an answer.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(deserializer).map(Some)
}

impl Inputs {
    /// Whether nothing was ever asked.
    pub fn is_empty(&self) -> bool {
        self.rounds == 0
    }

    /// How many rounds of questions there were.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// The questions without an answer, in the order they were asked.
    pub fn open(&self) -> impl Iterator<Item = &Asked> {
        self.asked.iter().filter(|asked| asked.answer.is_none())
    }

    /// Every question, in the order they were asked.
    pub fn all(&self) -> &[Asked] {
        &self.asked
    }

    /// How many bytes all of it has, as far as it counts against [`MAX_STATE`](crate::MAX_STATE).
    pub fn weight(&self) -> usize {
        let length = |payload: &Option<Payload>| payload.as_ref().map_or(0, Payload::weight);
        let asked = self.asked.iter().map(|asked| {
            let keys = asked.key.len() + asked.asker_key.as_ref().map_or(0, String::len);
            keys + asked.method.len() + length(&asked.params) + length(&asked.answer)
        });
        asked.sum::<usize>() + length(&self.resume)
    }

    /// Whether the work ended its call to ask, so that nothing runs while the task waits.
    pub fn is_parked(&self) -> bool {
        self.resume.is_some()
    }

    /// What a new attempt continues from: the last round, if the work was parked with it and all its questions are answered.
    pub fn round(&self) -> Option<Round> {
        let state = self.resume.clone()?;
        let answers = self.asked.iter().filter(|asked| asked.round == self.rounds).map(|asked| {
            let key = asked.asker_key.as_ref().unwrap_or(&asked.key).clone();
            asked.answer.clone().map(|answer| (key, answer))
        });
        Some(Round { state, answers: answers.collect::<Option<_>>()? })
    }

    /// All questions, and what work that is parked wants back.
    pub(crate) fn parts_mut(&mut self) -> (&mut [Asked], Option<&mut Payload>) {
        (&mut self.asked, self.resume.as_mut())
    }

    /// Adds a round of questions and returns their keys.
    pub(crate) fn ask(
        &mut self,
        questions: Vec<Question>,
        resume: Option<Payload>,
        now: Timestamp,
    ) -> Vec<String> {
        self.rounds += 1;
        let round = self.rounds;
        self.resume = resume;
        let mut keys = Vec::with_capacity(questions.len());
        for question in questions {
            let key = self.fresh_key(&question.key);
            let asker_key = (key != question.key).then_some(question.key);
            keys.push(key.clone());
            self.asked.push(Asked {
                key,
                asker_key,
                method: question.method,
                params: question.params,
                asked_at: now,
                answer: None,
                round,
            });
        }
        keys
    }

    /// Takes the answers whose keys are open; returns those and how many others there were.
    pub(crate) fn answer(&mut self, answers: Vec<(String, Payload)>) -> (Vec<(String, Payload)>, usize) {
        let mut taken = Vec::new();
        let mut ignored = 0;
        for (key, answer) in answers {
            match self.asked.iter_mut().find(|asked| asked.key == key && asked.answer.is_none()) {
                Some(asked) => {
                    asked.answer = Some(answer.clone());
                    taken.push((key, answer));
                }
                None => ignored += 1,
            }
        }
        (taken, ignored)
    }

    /// Closes open questions nobody waits for any more and returns how many these were. Their keys stay used.
    pub(crate) fn close(&mut self, which: impl Fn(&str) -> bool) -> usize {
        let open = self.asked.iter_mut().filter(|asked| asked.answer.is_none() && which(&asked.key));
        open.map(|asked| asked.answer = Some(Payload::null())).count()
    }

    /// Forgets the parked round: a new attempt carries the work on.
    pub(crate) fn unpark(&mut self) {
        self.resume = None;
    }

    fn fresh_key(&self, wanted: &str) -> String {
        let used = |key: &str| self.asked.iter().any(|asked| asked.key == key);
        if !used(wanted) {
            return wanted.to_owned();
        }
        (2u32..).map(|n| format!("{wanted}~{n}")).find(|key| !used(key)).unwrap_or_else(|| wanted.to_owned())
    }
}
