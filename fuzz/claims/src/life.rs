//! What may happen to a task, made from bytes.

use std::time::Duration;

use arbitrary::{Result, Unstructured};
use taskgate_task::{
    Failure, IdempotencyKey, Lifetime, Loss, NewTask, NodeId, Order, Outcome, Owner, Payload, Question, Step,
    TaskId, Timestamp, WorkClass,
};

use crate::pieces::text;

/// When lives begin.
pub const BEGIN: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Keys of questions: few, so that they meet, and such as the task makes itself.
const KEYS: [&str; 5] = ["a", "b", "a~2", "a~3", ""];

/// A JSON text: mostly of the kind that is met, sometimes any.
pub fn payload(input: &mut Unstructured<'_>) -> Result<Payload> {
    let body = text(input)?;
    let json = match input.int_in_range(0..=6_u8)? {
        0 => "null".to_owned(),
        1 => serde_json::json!({ "content": [{ "type": "text", "text": body }] }).to_string(),
        2 => serde_json::json!({ "resultType": "complete", "structuredContent": { body: 1.5 } }).to_string(),
        3 => serde_json::json!({ "_meta": { body: [] }, "isError": true }).to_string(),
        4 => serde_json::json!({ "code": -32000, "message": body }).to_string(),
        5 => serde_json::json!([body, 1e300, 18_446_744_073_709_551_615_u64]).to_string(),
        _ => body,
    };
    Ok(Payload::parse(json).unwrap_or_else(|_| Payload::null()))
}

/// An object: what a call's result is.
pub fn object(input: &mut Unstructured<'_>) -> Result<Payload> {
    let any = payload(input)?;
    let object = || Payload::parse("{}".to_owned()).unwrap_or_else(|_| Payload::null());
    Ok(if any.as_str().starts_with('{') { any } else { object() })
}

/// A task of one of a few owners, under an id whose locator is one of a few.
pub fn new_task(input: &mut Unstructured<'_>, id: TaskId, owner: Owner) -> Result<NewTask> {
    let millis =
        |input: &mut Unstructured<'_>| Ok(Duration::from_millis(input.int_in_range(0..=100_000_u64)?));
    let run = millis(input)?;
    let key = if input.ratio(1_u8, 3_u8)? {
        let tool = if input.arbitrary()? { "t" } else { "" }.to_owned();
        let key = (*input.choose(&["k", "s\nid", "other"])?).to_owned();
        Some(IdempotencyKey { tool, key, digest: [input.int_in_range(0..=1_u8)?; 32] })
    } else {
        None
    };
    Ok(NewTask {
        id,
        owner,
        runner: "echo".to_owned(),
        work: payload(input)?,
        class: *input.choose(&WorkClass::ALL)?,
        max_attempts: input.int_in_range(0..=4_u32)?,
        node: NodeId::from_number(input.int_in_range(1..=3_i64)?),
        key,
        lifetime: Lifetime {
            run_deadline: BEGIN.after(run),
            idle_limit: input.arbitrary::<bool>()?.then_some(Duration::from_secs(5)),
            retention: millis(input)?,
            ttl: millis(input)?,
        },
        poll_interval: millis(input)?,
        status_message: input.arbitrary::<bool>()?.then(|| text(input)).transpose()?,
        checkpoint: input.ratio(1_u8, 4_u8)?.then(|| payload(input)).transpose()?,
        created_at: BEGIN,
    })
}

/// A step, with a token that may be the current one.
pub fn step(input: &mut Unstructured<'_>) -> Result<Step> {
    let fence = |input: &mut Unstructured<'_>| input.int_in_range(0..=6_u64);
    let key = |input: &mut Unstructured<'_>| Ok::<_, arbitrary::Error>((*input.choose(&KEYS)?).to_owned());
    Ok(match input.int_in_range(0..=15_u8)? {
        0 | 1 => Step::Begin { node: NodeId::from_number(input.int_in_range(1..=3_i64)?) },
        2 => Step::Report { fence: fence(input)?, message: text(input)? },
        3 => Step::Checkpoint { fence: fence(input)?, state: payload(input)? },
        4 | 5 => {
            let count = input.int_in_range(0..=3_u8)?;
            let question = |input: &mut Unstructured<'_>| {
                let params = input.arbitrary::<bool>()?.then(|| payload(input)).transpose()?;
                Ok(Question { key: key(input)?, method: "elicitation/create".to_owned(), params })
            };
            let questions = (0..count).map(|_| question(input)).collect::<Result<_>>()?;
            let resume = input.arbitrary::<bool>()?.then(|| payload(input)).transpose()?;
            Step::Ask { fence: fence(input)?, questions, resume }
        }
        6 | 7 => {
            let count = input.int_in_range(0..=3_u8)?;
            Step::Answer {
                answers: (0..count).map(|_| Ok((key(input)?, payload(input)?))).collect::<Result<_>>()?,
            }
        }
        8 => Step::Withdraw { fence: fence(input)?, keys: vec![key(input)?] },
        9 => {
            let outcome = if input.arbitrary()? {
                let summary = input.arbitrary::<bool>()?.then(|| text(input)).transpose()?;
                Outcome::Result { body: object(input)?, is_error: input.arbitrary()?, summary }
            } else {
                Outcome::Error { body: object(input)?, summary: text(input)? }
            };
            Step::Finish { fence: fence(input)?, outcome }
        }
        10 => Step::Cancel,
        11 => {
            let all = [Failure::RunLimit, Failure::IdleLimit, Failure::Interrupted, Failure::NoRunner];
            Step::Fail { fence: fence(input)?, failure: *input.choose(&all)?, message: text(input)? }
        }
        12 => {
            let jitter = input.arbitrary()?;
            let loss = if jitter == 0 { Loss::ShutDown } else { Loss::Died { jitter } };
            Step::Lose { fence: fence(input)?, message: text(input)?, loss }
        }
        13 => {
            let pause = Duration::from_millis(input.int_in_range(0..=9000_u64)?);
            Step::PutBack { fence: fence(input)?, pause, message: text(input)? }
        }
        14 => match input.int_in_range(0..=4_u8)? {
            0 => Step::Order(Order::Cancel),
            1 => Step::Order(Order::Fail { message: text(input)? }),
            2 => Step::Order(Order::Requeue),
            3 => Step::Order(Order::Prune),
            _ => Step::Stopped { fence: fence(input)? },
        },
        _ => Step::Tick,
    })
}

/// The token under which a step would write, if it needs one.
pub fn fence_of(step: &Step) -> Option<u64> {
    match step {
        Step::Report { fence, .. }
        | Step::Checkpoint { fence, .. }
        | Step::Ask { fence, .. }
        | Step::Withdraw { fence, .. }
        | Step::Finish { fence, .. }
        | Step::Fail { fence, .. }
        | Step::Lose { fence, .. }
        | Step::PutBack { fence, .. }
        | Step::Stopped { fence } => Some(*fence),
        Step::Begin { .. } | Step::Answer { .. } | Step::Cancel | Step::Order(_) | Step::Tick => None,
    }
}
