//! What requestors and the work have put into a task, as against what taskgate keeps about it: where each value stands, and
//! how long it is. A store that seals values looks for them here and nowhere else.

use crate::{Inputs, Payload, Task};

/// Where in a task a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// The description of the work: what was asked for.
    Work,
    /// What the work has put down.
    Checkpoint,
    /// The result, or the error.
    Outcome,
    /// The status message, or the line for people of an outcome, which becomes the status message.
    Message,
    /// A question, by the name that its asker gave it.
    Question(&'a str),
    /// An answer, by the key of its question.
    Answer(&'a str),
    /// What work that ended its call to ask wants back.
    Resume,
}

impl Place<'_> {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Place::Work => "work",
            Place::Checkpoint => "checkpoint",
            Place::Outcome => "outcome",
            Place::Message => "status message",
            Place::Question(_) => "question",
            Place::Answer(_) => "answer",
            Place::Resume => "state of a parked call",
        }
    }

    /// What tells values at this kind of place apart; empty where there is only one.
    pub fn name(&self) -> &str {
        match self {
            Place::Question(name) | Place::Answer(name) => name,
            Place::Work | Place::Checkpoint | Place::Outcome | Place::Message | Place::Resume => "",
        }
    }
}

/// A value, to be replaced.
#[derive(Debug)]
pub enum Value<'a> {
    /// JSON.
    Payload(&'a mut Payload),
    /// Plain text.
    Text(&'a mut String),
}

impl Task {
    /// Shows every value in the record to `visit`, which may put another one in its place, up to the first error.
    pub fn visit_values<E>(
        &mut self,
        mut visit: impl FnMut(Place<'_>, Value<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(message) = &mut self.status_message {
            visit(Place::Message, Value::Text(message))?;
        }
        if let Some(checkpoint) = &mut self.checkpoint {
            visit(Place::Checkpoint, Value::Payload(checkpoint))?;
        }
        if let Some(outcome) = &mut self.outcome {
            if let Some(summary) = outcome.summary_mut() {
                visit(Place::Message, Value::Text(summary))?;
            }
            visit(Place::Outcome, Value::Payload(outcome.body_mut()))?;
        }
        self.inputs.visit_values(visit)
    }
}

impl Inputs {
    /// The same for questions and answers.
    pub fn visit_values<E>(
        &mut self,
        mut visit: impl FnMut(Place<'_>, Value<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (asked, resume) = self.parts_mut();
        for asked in asked {
            let name = asked.asker_key.as_deref().unwrap_or(&asked.key);
            if let Some(params) = &mut asked.params {
                visit(Place::Question(name), Value::Payload(params))?;
            }
            if let Some(answer) = &mut asked.answer {
                visit(Place::Answer(&asked.key), Value::Payload(answer))?;
            }
        }
        match resume {
            Some(state) => visit(Place::Resume, Value::Payload(state)),
            None => Ok(()),
        }
    }
}

/// How sealed text begins. It is followed by the key's id in hexadecimal digits, a colon, and base64 without padding.
pub const SEALED: &str = "tgs1:";
/// How many digits the id of a key has.
pub const KEY_DIGITS: usize = 16;
/// How much longer what is sealed is than what it holds: a nonce and a tag.
pub const SEALED_EXCESS: usize = 24 + 16;

/// How many bytes sealed text holds; `None` if that is not what it looks like. It may only look so.
pub fn sealed_weight(text: &str) -> Option<usize> {
    let (key, body) = text.strip_prefix(SEALED)?.split_at_checked(KEY_DIGITS)?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if !key.bytes().all(is_digit) {
        return None;
    }
    let body = body.strip_prefix(':')?;
    // What is too short for one looks like one that was damaged, and is none of anybody's words.
    Some((body.len() / 4 * 3 + (body.len() % 4 * 3) / 4).saturating_sub(SEALED_EXCESS))
}

impl Payload {
    /// How many bytes it has or, where a store keeps it sealed, those of what was sealed: limits are the same in every store.
    pub fn weight(&self) -> usize {
        let text = self.as_str();
        let sealed = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).and_then(sealed_weight);
        sealed.unwrap_or(text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_of_sealed_text_is_that_of_what_it_holds() {
        for length in 0..100 {
            let body = "A".repeat((length + SEALED_EXCESS) * 4).len().div_ceil(3);
            let text = format!("{SEALED}0123456789abcdef:{}", "A".repeat(body));
            assert_eq!(sealed_weight(&text), Some(length));
            let payload = Payload::from_value(&text).expect("a text");
            assert_eq!(payload.weight(), length);
        }
        // Too short for one: it was damaged, and must not pass for what somebody said.
        assert_eq!(sealed_weight("tgs1:0123456789abcdef:!!!!"), Some(0));
        for plain in ["", "tgs1:", "tgs1:0123456789abcdeg:", "tgs1:0123456789abcdef"] {
            assert_eq!(sealed_weight(plain), None, "{plain}");
            let payload = Payload::from_value(plain).expect("a text");
            assert_eq!(payload.weight(), plain.len() + 2);
        }
    }
}
