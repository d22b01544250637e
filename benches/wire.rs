//! Decoding requests and encoding replies, in both dialects: the part of every request that is no I/O.
//!
//! `cargo bench -p taskgate-wire`
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use taskgate_task::{
    Lifetime, LifetimePolicy, NewTask, NodeId, Outcome, Owner, Payload, Step, Task, TaskId, Timestamp,
    WorkClass,
};
use taskgate_wire::dialect::{d2025_11_25, d2026_07_28};
use taskgate_wire::{Capabilities, Dialect, Message, Params, Reply};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn payload(text: &str) -> Payload {
    Payload::parse(text.to_owned()).expect("JSON")
}

fn finished() -> Task {
    let task = Task::create(&NewTask {
        id: TaskId::from_entropy(NOW, [9; 19]),
        owner: Owner::local(),
        runner: "bench".into(),
        work: payload("{}"),
        class: WorkClass::Live,
        max_attempts: 5,
        node: NodeId::from_number(1),
        key: None,
        lifetime: Lifetime::grant(&LifetimePolicy::default(), None, NOW),
        poll_interval: Duration::from_secs(1),
        status_message: None,
        checkpoint: None,
        created_at: NOW,
    });
    let body =
        payload(r#"{"resultType":"complete","content":[{"type":"text","text":"p-12345"}],"isError":false}"#);
    let outcome = Outcome::Result { body, is_error: false, summary: None };
    task.step(Step::Finish { fence: 1, outcome }, NOW).expect("finish").task
}

fn decode(criterion: &mut Criterion) {
    let id = finished().id;
    let stateless = format!(
        r#"{{"jsonrpc":"2.0","id":17,"method":"tasks/get","params":{{"taskId":"{id}","_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"bench","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{"extensions":{{"io.modelcontextprotocol/tasks":{{}}}}}}}}}}}}"#
    );
    criterion.bench_function("decode tasks/get of 2026-07-28", |bench| {
        bench.iter(|| {
            let Ok(Message::Request { method, params, .. }) = Message::parse(black_box(stateless.as_bytes()))
            else {
                panic!("a request")
            };
            let known = Params::parse(params.as_ref()).expect("params");
            let declared =
                known.meta().client_capabilities.and_then(Capabilities::parse).expect("capabilities");
            d2026_07_28::decode(&method, &known, declared).expect("call");
        });
    });
    let session = format!(r#"{{"jsonrpc":"2.0","id":17,"method":"tasks/get","params":{{"taskId":"{id}"}}}}"#);
    criterion.bench_function("decode tasks/get of 2025-11-25", |bench| {
        bench.iter(|| {
            let Ok(Message::Request { method, params, .. }) = Message::parse(black_box(session.as_bytes()))
            else {
                panic!("a request")
            };
            d2025_11_25::decode(&method, &Params::parse(params.as_ref()).expect("params"), true)
                .expect("call");
        });
    });
}

fn encode(criterion: &mut Criterion) {
    let task = finished();
    for (name, dialect) in [("2026-07-28", Dialect::D2026_07_28), ("2025-11-25", Dialect::D2025_11_25)] {
        criterion.bench_function(&format!("encode a finished task's state for {name}"), |bench| {
            bench.iter(|| dialect.encode(Reply::State(black_box(&task))).expect("encodes"));
        });
    }
    criterion.bench_function("encode a task's outcome for 2025-11-25", |bench| {
        bench.iter(|| Dialect::D2025_11_25.encode(Reply::Outcome(black_box(&task))).expect("encodes"));
    });
}

criterion_group!(wire, decode, encode);
criterion_main!(wire);
