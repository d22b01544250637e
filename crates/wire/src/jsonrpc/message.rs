use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use taskgate_task::{Payload, what_is_wrong};

use super::edges::answered;
use super::error::{ErrorCode, RpcError};
use super::id::Id;

/// One JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Wants an answer.
    Request {
        /// Its id.
        id: Id,
        /// The method.
        method: String,
        /// An object, if present.
        params: Option<Payload>,
    },
    /// Wants none.
    Notification {
        /// The method.
        method: String,
        /// An object, if present.
        params: Option<Payload>,
    },
    /// A request went well.
    Response {
        /// The request's id.
        id: Id,
        /// The result.
        result: Payload,
    },
    /// A request went wrong.
    Error {
        /// The request's id; `None` where it could not be read.
        id: Option<Id>,
        /// The error object.
        error: Payload,
    },
}

/// Bytes that are no message, and the error to answer with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The id, if it could be read: the answer carries it, else `null`.
    pub id: Option<Id>,
    /// The id of the request that this was to answer, if it is no request itself: whoever waits for that answer gets no
    /// other.
    pub answers: Option<Id>,
    /// What is wrong.
    pub error: RpcError,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Incoming<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Tells `null` from absent.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Message {
    /// Reads one message. The bytes must be one JSON object in UTF-8; see [`super::one_line`] for framing.
    pub fn parse(bytes: &[u8]) -> Result<Message, Malformed> {
        let bad = |id: Option<Id>, code, message: String| Malformed {
            id,
            answers: answered(bytes),
            error: RpcError::new(code, message),
        };
        let text = std::str::from_utf8(bytes)
            .map_err(|error| bad(None, ErrorCode::ParseError, format!("Parse error: not UTF-8: {error}")))?;
        if super::is_batch(bytes) {
            let message = "Invalid request: a batch; this protocol version takes one message at a time";
            return Err(bad(None, ErrorCode::InvalidRequest, message.to_owned()));
        }
        let incoming: Incoming = serde_json::from_str(text).map_err(|error| {
            let what = what_is_wrong(&error);
            if error.is_data() {
                bad(None, ErrorCode::InvalidRequest, format!("Invalid request: {what}"))
            } else {
                bad(None, ErrorCode::ParseError, format!("Parse error: {what}"))
            }
        })?;
        let id = incoming.id.and_then(Id::from_raw);
        let answers = id.clone().filter(|_| incoming.method.is_none());
        let invalid = |what: &str| Malformed {
            id: id.clone(),
            answers: answers.clone(),
            error: RpcError::new(ErrorCode::InvalidRequest, format!("Invalid request: {what}")),
        };
        if incoming.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
            return Err(invalid("jsonrpc must be \"2.0\""));
        }
        if let Some(method) = incoming.method {
            let method: String =
                serde_json::from_str(method.get()).map_err(|_| invalid("method must be a string"))?;
            let params = match incoming.params {
                None => None,
                Some(params) if params.get().starts_with('{') => Some(Payload::from_raw(params)),
                Some(_) => {
                    let message = "Invalid params: params must be an object".to_owned();
                    return Err(bad(id.clone(), ErrorCode::InvalidParams, message));
                }
            };
            return match (incoming.id, id.clone()) {
                (None, _) => Ok(Message::Notification { method, params }),
                (Some(_), Some(id)) => Ok(Message::Request { id, method, params }),
                (Some(_), None) => Err(invalid("id must be a string or a number")),
            };
        }
        match (incoming.result, incoming.error, id.clone()) {
            (Some(result), None, Some(id)) => Ok(Message::Response { id, result: Payload::from_raw(result) }),
            (None, Some(error), id) => Ok(Message::Error { id, error: Payload::from_raw(error) }),
            _ => Err(invalid("neither a request nor a response")),
        }
    }

    /// An error answer of ours.
    pub fn error(id: Option<Id>, error: &RpcError) -> Message {
        Message::Error { id, error: error.to_payload() }
    }

    /// The message as one JSON text without line breaks, if its parts have none.
    pub fn to_text(&self) -> String {
        let shape = match self {
            Message::Request { id, method, params } => {
                Outgoing { id: Some(id), method: Some(method), params: params.as_ref(), ..Outgoing::EMPTY }
            }
            Message::Notification { method, params } => {
                Outgoing { method: Some(method), params: params.as_ref(), ..Outgoing::EMPTY }
            }
            Message::Response { id, result } => {
                Outgoing { id: Some(id), result: Some(result), ..Outgoing::EMPTY }
            }
            Message::Error { id: Some(id), error } => {
                Outgoing { id: Some(id), error: Some(error), ..Outgoing::EMPTY }
            }
            Message::Error { id: None, error } => {
                // JSON-RPC 2.0 wants `null` here; MCP's schema allows leaving it out. Older readers need the member.
                return format!(r#"{{"jsonrpc":"2.0","id":null,"error":{}}}"#, error.as_str());
            }
        };
        // Raw JSON and strings always serialize.
        serde_json::to_string(&shape).unwrap_or_default()
    }
}

impl Message {
    /// The same text in three parts, if it is a response: what comes before the result, the result, and what comes after it.
    pub fn to_parts(&self) -> Option<(String, Payload, &'static str)> {
        let Message::Response { id, result } = self else { return None };
        let nothing = Payload::null();
        let shape = Outgoing { id: Some(id), result: Some(&nothing), ..Outgoing::EMPTY };
        let mut head = serde_json::to_string(&shape).unwrap_or_default();
        // The result is the last member.
        head.truncate(head.len().saturating_sub("null}".len()));
        Some((head, result.clone(), "}"))
    }
}

#[derive(Serialize)]
struct Outgoing<'a> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Payload>,
}

impl Outgoing<'_> {
    const EMPTY: Self =
        Outgoing { jsonrpc: "2.0", id: None, method: None, params: None, result: None, error: None };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_response_are_its_text() {
        let message =
            Message::parse(br#"{"jsonrpc":"2.0","id":"null}","result":{ "a":1.0}}"#).expect("a response");
        let (head, result, tail) = message.to_parts().expect("parts");
        assert_eq!(result.as_str(), "{ \"a\":1.0}");
        assert_eq!(format!("{head}{}{tail}", result.as_str()), message.to_text());
        let request = Message::parse(br#"{"jsonrpc":"2.0","id":1,"method":"m"}"#).expect("a request");
        assert!(request.to_parts().is_none());
    }

    fn code_of(text: &str) -> (Option<String>, i32) {
        let malformed = Message::parse(text.as_bytes()).expect_err(text);
        (malformed.id.map(|id| id.as_str().to_owned()), malformed.error.code.number())
    }

    /// Whatever has an id and no method may be an answer, also if nothing else of it can be read.
    #[test]
    fn a_malformed_answer_says_what_it_was_to_answer() {
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":7}"#, Some("7")),
            (r#"{"jsonrpc":"2.0","id":7,"Result":{}}"#, Some("7")),
            (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#, Some("7")),
            (r#"{"id":7,"result":{}}"#, Some("7")),
            (r#"{"jsonrpc":"2.0","id":7,"result":{"#, Some("7")),
            (r#"{"jsonrpc":"2.0","id":7,"method":7}"#, None),
            (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":7}"#, None),
            (r#"{"id":7,"method":"m"}"#, None),
            (r#"{"jsonrpc":"2.0","result":{},"error":{}}"#, None),
        ] {
            let malformed = Message::parse(text.as_bytes()).expect_err(text);
            assert_eq!(malformed.answers.as_ref().map(Id::as_str), id, "{text}");
        }
    }

    /// Case 19: every kind of bad line has its own precise answer.
    #[test]
    fn malformed_messages_get_the_exact_error() {
        assert_eq!(code_of("not json"), (None, -32700));
        assert_eq!(code_of("{"), (None, -32700));
        assert_eq!(code_of(""), (None, -32700));
        assert_eq!(code_of("[]"), (None, -32600));
        assert_eq!(code_of(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#), (None, -32600));
        assert_eq!(code_of("1"), (None, -32600));
        let said = Message::parse(b"1").expect_err("a number").error.message;
        assert!(said.contains("expected an object"), "{said}");
        assert_eq!(code_of(r#"{"id":1,"method":"ping"}"#), (Some("1".into()), -32600));
        assert_eq!(code_of(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#), (Some("1".into()), -32600));
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), (None, -32600));
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#), (None, -32600));
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":7,"method":7}"#), (Some("7".into()), -32600));
        assert_eq!(
            code_of(r#"{"jsonrpc":"2.0","id":7,"method":"m","params":null}"#),
            (Some("7".into()), -32602)
        );
        assert_eq!(
            code_of(r#"{"jsonrpc":"2.0","id":7,"method":"m","params":[1]}"#),
            (Some("7".into()), -32602)
        );
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":7}"#), (Some("7".into()), -32600));
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":7,"id":8,"method":"m"}"#), (None, -32600));
        assert_eq!(Message::parse(b"\xff\xfe{}").expect_err("bytes").error.code, ErrorCode::ParseError);
    }

    #[test]
    fn ids_and_numbers_come_back_as_they_were_spelled() {
        for id in ["0", "\"1\"", "9007199254740993", "1e3", "\"\\u00e9\""] {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"m","params":{{"n":1.0,"big":12345678901234567890}}}}"#
            );
            assert_eq!(Message::parse(text.as_bytes()).expect("message").to_text(), text);
        }
    }

    #[test]
    fn deep_nesting_is_carried_without_recursion() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"x":{}{}}}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert!(Message::parse(deep.as_bytes()).is_ok());
    }
}
