use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use taskgate_task::what_is_wrong;

use super::error::{ErrorCode, RpcError};
use super::message::{Malformed, Message};

/// The most messages in one batch. Each may start work, so one line must not start any number of them.
pub const MOST: usize = 100;

/// Whether a text is an array, which in JSON-RPC is a batch of messages.
pub fn is_batch(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"[")
}

/// Reads the messages of a batch, each on its own: a bad one does not spoil the others. `Err` if it is no batch as a whole.
pub fn parse_batch(text: &[u8]) -> Result<Vec<Result<Message, Malformed>>, Malformed> {
    let bad =
        |code, message: String| Malformed { id: None, answers: None, error: RpcError::new(code, message) };
    let text = std::str::from_utf8(text)
        .map_err(|error| bad(ErrorCode::ParseError, format!("Parse error: not UTF-8: {error}")))?;
    let Members(members) = serde_json::from_str(text)
        .map_err(|error| bad(ErrorCode::ParseError, format!("Parse error: {}", what_is_wrong(&error))))?;
    let invalid = |what: String| Err(bad(ErrorCode::InvalidRequest, format!("Invalid request: {what}")));
    match members.len() {
        0 => invalid("an empty batch".to_owned()),
        1..=MOST => Ok(members.into_iter().map(|member| read(member.get().as_bytes())).collect()),
        _ => invalid(format!("a batch of more than {MOST} messages; nothing of it was done")),
    }
}

/// Several messages as one line, a batch of answers.
pub fn batch_text(messages: &[Message]) -> String {
    let texts: Vec<String> = messages.iter().map(Message::to_text).collect();
    format!("[{}]", texts.join(","))
}

fn read(member: &[u8]) -> Result<Message, Malformed> {
    if is_batch(member) {
        let error = RpcError::new(ErrorCode::InvalidRequest, "Invalid request: a batch within a batch");
        return Err(Malformed { id: None, answers: None, error });
    }
    Message::parse(member)
}

/// The members of an array as raw text. Of a hostile one only as many are kept as show that it has too many.
struct Members<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Array<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Array<'a> {
            type Value = Members<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while members.len() <= MOST
                    && let Some(member) = array.next_element()?
                {
                    members.push(member);
                }
                while array.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Members(members))
            }
        }
        deserializer.deserialize_seq(Array(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> i32 {
        parse_batch(text.as_bytes()).expect_err(text).error.code.number()
    }

    #[test]
    fn what_is_no_batch_as_a_whole_has_one_error() {
        for text in ["[", "[1", "[1,]", "[1]]", "[1] x", "[,]", r#"[{"jsonrpc":"2.0"]"#, "[1 2]"] {
            assert_eq!(whole(text), -32700, "{text}");
        }
        assert_eq!(parse_batch(b"[\"\xff\"]").expect_err("bytes").error.code, ErrorCode::ParseError);
        for text in ["[]", " [ ] "] {
            assert_eq!(whole(text), -32600, "{text}");
        }
    }

    #[test]
    fn a_batch_has_an_upper_bound() {
        let of = |count: usize| {
            let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
            format!("[{}]", vec![ping; count].join(","))
        };
        assert_eq!(parse_batch(of(MOST).as_bytes()).map(|batch| batch.len()), Ok(MOST));
        for count in [MOST + 1, 10_000] {
            assert_eq!(whole(&of(count)), -32600);
        }
    }

    #[test]
    fn every_member_is_read_on_its_own() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let text = format!(
            r#"[1,"x",null,[],{{}},{deep},{{"jsonrpc":"2.0","id":"a","method":7}},{{"jsonrpc":"2.0","method":"m"}}]"#
        );
        let batch = parse_batch(text.as_bytes()).expect("a batch");
        let (last, wrong) = batch.split_last().expect("members");
        assert_eq!(wrong.len(), 7);
        assert!(wrong.iter().all(|one| one.as_ref().is_err_and(|bad| bad.error.code.number() == -32600)));
        assert!(
            matches!(&wrong[6], Err(Malformed { id: Some(id), .. }) if id.as_str() == "\"a\""),
            "{wrong:?}"
        );
        assert_eq!(*last, Ok(Message::Notification { method: "m".to_owned(), params: None }));
    }
}
