//! Whole requests of a caller who knows the names of somebody else's task and session: each gets an answer that is one, nothing in it
//! is of the other, and the other's task goes on as if nobody had asked.

use arbitrary::{Result, Unstructured};
use serde_json::{Value, json};
use taskgate_gateway::Gateway;
use taskgate_wire::Message;
use taskgate_wire::jsonrpc::{is_batch, one_line};

use crate::pieces::LONGEST_ERROR;
use crate::served::{Answer, MARK, ask, modern, run, send};

const HEADERS: [&str; 9] = [
    "mcp-protocol-version",
    "mcp-session-id",
    "mcp-method",
    "mcp-name",
    "accept",
    "last-event-id",
    "idempotency-key",
    "mcp-param-where",
    "content-type",
];
const VALUES: [&str; 12] = [
    "2026-07-28",
    "2025-11-25",
    "2025-03-26",
    "text/event-stream",
    "application/json",
    "$S",
    "$M",
    "$T",
    "tools/call",
    "tasks/get",
    "echo",
    "1-0",
];
const METHODS: [&str; 14] = [
    "tasks/get",
    "tasks/cancel",
    "tasks/update",
    "tasks/result",
    "tasks/list",
    "tasks/delete",
    "tools/call",
    "tools/list",
    "initialize",
    "subscriptions/listen",
    "notifications/cancelled",
    "server/discover",
    "ping",
    "resources/subscribe",
];
/// An id that is none of a task, as long as one.
const UNKNOWN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef";

/// A request with names in it that stand for others: `$T` for the other's task, `$S` for the other's session, `$M` for a session of
/// the caller's own.
#[derive(Debug)]
struct Asked {
    verb: &'static str,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

pub fn check(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let mut asked = Vec::new();
    while !input.is_empty() && asked.len() < 4 {
        match request(&mut input) {
            Ok(request) => asked.push(request),
            Err(_) => break,
        }
    }
    if !asked.is_empty() {
        run(|gateway, empty| answer(gateway, empty, asked));
    }
}

fn request(input: &mut Unstructured<'_>) -> Result<Asked> {
    let verb = *input.choose(&["POST", "POST", "POST", "POST", "GET", "DELETE"])?;
    let kind = input.int_in_range(0..=5_u8)?;
    let method = *input.choose(&METHODS)?;
    let params = params(input)?;
    let id = input.choose(&[json!(7), json!("seven"), json!(null), json!(1.5)])?.clone();
    let (mut headers, body) = match kind {
        // As a client of 2026-07-28 would, or of the versions before, or in a session of its own.
        0 | 1 => modern("bob", method, params),
        2 => (session("$M"), json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })),
        3 => (session("$S"), json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })),
        4 => {
            let one = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            (session("$M"), json!([one, { "jsonrpc": "2.0", "id": 7, "result": params }, one, 7]))
        }
        _ => (session("$M"), Value::Null),
    };
    for _ in 0..input.int_in_range(0..=3_u8)? {
        let name = (*input.choose(&HEADERS)?).to_owned();
        let value =
            if input.arbitrary()? { input.choose(&VALUES)?.as_bytes().to_vec() } else { bytes(input)? };
        if input.arbitrary()? {
            headers.retain(|(other, _)| *other != name);
        }
        headers.push((name, value));
    }
    let mut body = if kind == 5 { bytes(input)? } else { body.to_string().into_bytes() };
    // A byte here and there is another one.
    for _ in 0..input.int_in_range(0..=6_u8)?.saturating_sub(4) {
        let place = input.int_in_range(0..=body.len().saturating_sub(1))?;
        let byte = input.arbitrary()?;
        if let Some(place) = body.get_mut(place) {
            *place = byte;
        }
    }
    Ok(Asked { verb, headers, body })
}

fn session(id: &str) -> Vec<(String, Vec<u8>)> {
    vec![("authorization".to_owned(), b"Bearer bob".to_vec()), ("mcp-session-id".to_owned(), id.into())]
}

fn bytes(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let length = input.int_in_range(0..=200_usize)?.min(input.len());
    Ok(input.bytes(length)?.to_vec())
}

fn params(input: &mut Unstructured<'_>) -> Result<Value> {
    let word = |input: &mut Unstructured<'_>| {
        Ok::<_, arbitrary::Error>(match input.int_in_range(0..=5_u8)? {
            0 | 1 => json!("$T"),
            2 => json!(*input.choose(&["echo", "always", "mirrored", "task_get", "task_cancel", "$S"])?),
            3 => json!(input.arbitrary::<i32>()?),
            4 => json!({ "taskId": "$T", "task_id": "$T", "where": "x" }),
            _ => json!(["$T", null]),
        })
    };
    let mut params = json!({});
    for _ in 0..input.int_in_range(0..=4_u8)? {
        let name = *input.choose(&[
            "taskId",
            "name",
            "arguments",
            "task",
            "inputResponses",
            "notifications",
            "requestId",
            "cursor",
            "requestState",
        ])?;
        params[name] = match name {
            "notifications" => json!({ "taskIds": [word(input)?], "toolsListChanged": true }),
            "arguments" => json!({ "task_id": word(input)?, "taskId": word(input)? }),
            _ => word(input)?,
        };
    }
    if input.ratio(1_u8, 4_u8)? {
        params["_meta"] = json!({ "modelcontextprotocol.io/related-task": { "taskId": word(input)? } });
    }
    Ok(params)
}

/// `empty` is a gateway where there is no such task and no such session.
async fn answer(gateway: Gateway, empty: Gateway, asked: Vec<Asked>) {
    let made =
        ask(&gateway, "ann", "tools/call", json!({ "name": "always", "arguments": { "x": MARK } })).await;
    let task = made["taskId"].as_str().unwrap().to_owned();
    let before = ask(&gateway, "ann", "tasks/get", json!({ "taskId": task })).await;
    let (ann, bob) = (opened(&gateway, "ann").await, opened(&gateway, "bob").await);
    let alone = opened(&empty, "bob").await;
    // As long as what it stands for, since errors name places in texts.
    let none = "-".repeat(ann.len());
    for asked in asked {
        let answer = meant(&gateway, &asked, &task, &ann, &bob).await;
        is_one(&asked, &answer);
        assert!(!answer.text.contains(MARK), "{answer:?}");
        // What is somebody else's is answered as what does not exist.
        let other = meant(&empty, &asked, UNKNOWN, &none, &alone).await;
        // Where a text stops to be JSON may depend on the digits of an id.
        let gist = |answer: &Answer| {
            let said = |message: &Value| {
                let error = &message["error"];
                let words = error["message"].as_str().and_then(|words| words.split(" at line ").next());
                json!([error["code"], words, error["data"]])
            };
            let text = Value::from_iter(answer.messages().iter().map(said)).to_string();
            text.replace(&task, UNKNOWN).replace(&ann, &none).replace(&bob, &alone)
        };
        assert_eq!((answer.status, gist(&answer)), (other.status, gist(&other)), "{asked:?}");
    }
    let after = ask(&gateway, "ann", "tasks/get", json!({ "taskId": task })).await;
    assert_eq!(after, before, "somebody else has done something to it");
    ask(&gateway, "ann", "tasks/cancel", json!({ "taskId": task })).await;
    for (gateway, who, session) in [(&gateway, "ann", &ann), (&gateway, "bob", &bob), (&empty, "bob", &alone)]
    {
        let bearer = format!("Bearer {who}").into_bytes();
        let headers =
            [("authorization".to_owned(), bearer), ("mcp-session-id".to_owned(), session.clone().into())];
        send(gateway, "DELETE", &headers, Vec::new()).await;
    }
}

async fn opened(gateway: &Gateway, who: &str) -> String {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let headers = [("authorization".to_owned(), format!("Bearer {who}").into_bytes())];
    send(gateway, "POST", &headers, body.to_string().into_bytes()).await.session.unwrap()
}

async fn meant(gateway: &Gateway, asked: &Asked, task: &str, theirs: &str, mine: &str) -> Answer {
    let fill = |bytes: &[u8]| {
        let (mut filled, mut rest) = (Vec::new(), bytes);
        while let Some((byte, after)) = rest.split_first() {
            let name = match (byte, after.first()) {
                (b'$', Some(b'T')) => Some(task),
                (b'$', Some(b'S')) => Some(theirs),
                (b'$', Some(b'M')) => Some(mine),
                _ => None,
            };
            match name {
                Some(name) => filled.extend_from_slice(name.as_bytes()),
                None => filled.push(*byte),
            }
            rest = if name.is_some() { &after[1..] } else { after };
        }
        filled
    };
    let headers: Vec<_> = asked.headers.iter().map(|(name, value)| (name.clone(), fill(value))).collect();
    send(gateway, asked.verb, &headers, fill(&asked.body)).await
}

/// An answer is a status and messages that are such, the errors short, and under the id that was asked with.
fn is_one(asked: &Asked, answer: &Answer) {
    assert!(
        matches!(answer.status, 200 | 202 | 204 | 400 | 403 | 404 | 405 | 406 | 409 | 413 | 415 | 429),
        "{answer:?}"
    );
    let text = one_line(&asked.body);
    let id = match Message::parse(&text) {
        Ok(Message::Request { id, .. }) => serde_json::from_str::<Value>(id.as_str()).ok(),
        _ => None,
    };
    for message in answer.messages() {
        assert_eq!(message["jsonrpc"], "2.0");
        let error = message.get("error");
        if let Some(error) = error {
            assert!(error["code"].is_i64());
            assert!(error["message"].as_str().unwrap().len() <= LONGEST_ERROR);
        }
        let is_answer = error.is_some() || message.get("result").is_some();
        if is_answer && asked.verb == "POST" && !is_batch(&text) {
            let answered = message.get("id").filter(|id| !id.is_null());
            assert!(answered.is_none() || answered == id.as_ref() || id.is_none(), "{message}");
        }
    }
}
