// Claims are made by unwrapping.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use taskgate_task::{
    IdempotencyKey, Lifetime, NewTask, NodeId, Outcome, Owner, Payload, Question, Step, TaskId, Timestamp,
    WorkClass,
};

use super::*;
use crate::{MemoryStore, SqliteOptions, SqliteStore};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const LONGEST: usize = 1 << 20;

fn json(text: &str) -> Payload {
    Payload::parse(text.to_owned()).unwrap()
}

fn new_task(number: u8) -> NewTask {
    NewTask {
        id: TaskId::from_entropy(NOW, [number; 19]),
        owner: Owner::named("issuer|\"ключ\"\0"),
        runner: "läufer".to_owned(),
        work: json("{\r\n  \"name\" :\t\"echo\", \"n\": 1.50\n}"),
        class: WorkClass::Resumable,
        max_attempts: u32::MAX,
        checkpoint: None,
        node: NodeId::from_number(i64::MAX),
        key: Some(IdempotencyKey { tool: "t".to_owned(), key: number.to_string(), digest: [0xfe; 32] }),
        lifetime: Lifetime {
            run_deadline: Timestamp::NEVER,
            idle_limit: Some(Duration::from_millis(5)),
            retention: Duration::from_secs(10),
            ttl: Duration::from_secs(70),
        },
        poll_interval: Duration::from_secs(1),
        status_message: Some("warte\n…".to_owned()),
        created_at: NOW,
    }
}

/// A store with a task that runs, one that asks, one that is parked, and ended ones of every kind.
async fn filled() -> MemoryStore {
    let store = MemoryStore::new();
    store.secret("seal").await.unwrap();
    let question = || Question {
        key: "q".to_owned(),
        method: "elicitation/create".to_owned(),
        params: Some(json("{\n\"a\" : 1}")),
    };
    let ask = |resume| Step::Ask { fence: 1, questions: vec![question()], resume };
    let result = |is_error| Outcome::Result { body: json("[\n1.0 ]"), is_error, summary: None };
    let error = Outcome::Error { body: json("{\"code\" :-1}"), summary: "so".to_owned() };
    let steps = [
        Step::Report { fence: 1, message: "on".to_owned() },
        ask(None),
        ask(Some(json("\n null"))),
        Step::Checkpoint { fence: 1, state: json("{ \"at\": \n7 }") },
        Step::Finish { fence: 1, outcome: result(false) },
        Step::Finish { fence: 1, outcome: result(true) },
        Step::Finish { fence: 1, outcome: error },
        Step::Cancel,
        Step::Fail { fence: 1, failure: taskgate_task::Failure::NoRunner, message: "weg".to_owned() },
    ];
    for (number, step) in (1..).zip(steps) {
        let id = store.create(new_task(number)).await.unwrap().id;
        store.apply(id, step, NOW).await.unwrap();
    }
    store
}

async fn exported(store: &dyn Store) -> Vec<u8> {
    let mut out = Vec::new();
    export(store, &mut out).await.unwrap();
    out
}

async fn refused(text: &[u8]) -> String {
    import(&MemoryStore::new(), text, LONGEST).await.unwrap_err().to_string()
}

#[tokio::test]
async fn what_is_exported_and_imported_is_the_same() {
    let store = filled().await;
    let text = exported(&store).await;
    let dir = tempfile::tempdir().unwrap();
    let sqlite = SqliteStore::open(SqliteOptions::new(dir.path().join("tasks.db"))).unwrap();
    let carried = import(&sqlite, &text[..], LONGEST).await.unwrap();
    assert_eq!(carried, Carried { tasks: 9, secrets: 1 });
    assert_eq!(sqlite.dump(None, 100).await.unwrap(), store.dump(None, 100).await.unwrap());
    assert_eq!(exported(&sqlite).await, text);
    let work = sqlite.work(new_task(1).id).await.unwrap();
    assert_eq!(work, Some(new_task(1).work));
}

#[tokio::test]
async fn an_empty_store_has_an_export_too() {
    let text = exported(&MemoryStore::new()).await;
    assert_eq!(String::from_utf8(text.clone()).unwrap().lines().count(), 2);
    let carried = import(&MemoryStore::new(), &text[..], LONGEST).await.unwrap();
    assert_eq!(carried, Carried::default());
}

#[tokio::test]
async fn a_store_with_tasks_is_left_alone() {
    let (store, other) = (filled().await, MemoryStore::new());
    other.create(new_task(200)).await.unwrap();
    let refused = import(&other, &exported(&store).await[..], LONGEST).await.unwrap_err();
    assert!(matches!(refused, TransferError::NotEmpty));
    assert_eq!(other.dump(None, 100).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_export_that_was_cut_off_is_told_wherever_it_was() {
    let text = exported(&filled().await).await;
    let first = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for length in (first..text.len()).step_by(7).chain(text.len() - 3..text.len()) {
        let refused = refused(&text[..length]).await;
        assert!(refused.contains("was cut off"), "{length}: {refused}");
    }
    for length in 0..first - 2 {
        assert!(refused(&text[..length]).await.contains("no export of a store"), "{length}");
    }
}

#[tokio::test]
async fn other_files_are_no_exports() {
    for text in [
        "",
        "\n",
        "hello",
        "{}\n",
        "[1]\n",
        "{\"end\":{\"tasks\":0,\"secrets\":0}}\n",
        "\0\0\0\n",
        "SQLite format 3\0",
    ] {
        let refused = refused(text.as_bytes()).await;
        assert!(refused.contains("no export of a store"), "{text:?}: {refused}");
    }
    assert!(refused(&[0xff; 100]).await.contains("no export"));
    assert!(refused(b"{\"taskgate_export\":2}\n").await.contains("format 2"));
}

#[tokio::test]
async fn a_line_that_is_too_long_is_not_read() {
    let text = exported(&filled().await).await;
    let longest = text.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap();
    import(&MemoryStore::new(), &text[..], longest).await.unwrap();
    let refused = import(&MemoryStore::new(), &text[..], longest - 1).await.unwrap_err();
    assert!(
        matches!(refused, TransferError::TooLong { longest: most, .. } if most == longest - 1),
        "{refused}"
    );
    // It does not even have to end.
    let endless = std::io::BufReader::new(std::io::Read::chain(&text[..30], std::io::repeat(b'x')));
    assert!(import(&MemoryStore::new(), endless, LONGEST).await.is_err());
}

/// Each of these is one line spoilt; the answer names the line, and nothing that stands in it.
#[tokio::test]
async fn spoilt_lines_are_told_by_their_number() {
    let text = String::from_utf8(exported(&filled().await).await).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let spoilt = |line: &str, from: &str, to: &str| {
        assert!(line.contains(from), "{from} in {line}");
        line.replacen(from, to, 1)
    };
    let running = lines[2];
    let ended = lines[6];
    let cases = [
        (3, "garbage läufer".to_owned(), "not JSON"),
        (3, String::new(), "breaks off"),
        (3, running[..running.len() / 2].to_owned(), "breaks off"),
        (3, spoilt(running, "\"owner\"", "\"läufer\""), "not what belongs there"),
        (3, spoilt(running, "{\"task\"", "{\"läufer\""), "not what belongs there"),
        (3, spoilt(running, "\"id\":\"0", "\"id\":\"f"), "no valid id"),
        (3, spoilt(running, "\"id\":\"0", "\"id\":\""), "no valid id"),
        (3, spoilt(running, "\"resumable\"", "\"läufer\""), "no valid class"),
        (3, spoilt(running, "\"status\":\"working\"", "\"status\":\"completed\""), "does not fit"),
        (3, spoilt(running, "\"status\":\"working\"", "\"status\":\"läufer\""), "not what belongs there"),
        (3, spoilt(running, "\"node\":", "\"ready_at\":5,\"node\":"), "waits to be carried"),
        (3, spoilt(running, "\"node\":9223372036854775807,", ""), "nobody carries"),
        (3, spoilt(running, "\"digest\":\"fe", "\"digest\":\""), "no valid digest"),
        (3, spoilt(running, "\"work\":\"{", "\"work\":\""), "no valid work"),
        (3, spoilt(running, "\"work\":\"", "\"checkpoint\":\"{\",\"work\":\""), "no valid checkpoint"),
        (3, spoilt(running, "\"version\":2", "\"version\":0"), "has event 1"),
        (3, spoilt(running, "\"version\":2", "\"version\":-2"), "not what belongs there"),
        (3, spoilt(lines[3], "\"inputs\":\"", "\"inputs\":\"x"), "no valid inputs"),
        (
            3,
            spoilt(running, "\"class\":", &format!("\"class\":{}", "[".repeat(100_000))),
            "not what belongs there",
        ),
        (
            3,
            spoilt(running, "\"class\":", &format!("\"x\":{},\"class\":", "[".repeat(100_000))),
            "not what belongs there",
        ),
        (4, spoilt(lines[3], r#"\"rounds\":1"#, r#"\"rounds\":0"#), "a round that never was"),
        (7, spoilt(ended, "\"ended_at\":1800000000000,", ""), "when it ended"),
        (7, spoilt(ended, "\"kind\":\"result\"", "\"kind\":\"error\""), "without its summary"),
        (7, spoilt(ended, "\"body\":\"[", "\"body\":\"läufer"), "no valid outcome"),
        (7, spoilt(ended, "\"to\":\"completed\"", "\"to\":\"cancelled\""), "its last event says"),
        (3, lines[0].to_owned(), "begins another export"),
        (2, spoilt(lines[1], "\"value\":\"", "\"value\":\"zz"), "a secret that is none"),
        (4, running.to_owned(), "does not come after"),
        (12, spoilt(lines[11], "\"tasks\":9", "\"tasks\":10"), "there were 9 and 1"),
    ];
    for (number, line, why) in cases {
        let mut lines: Vec<&str> = lines.clone();
        lines[number - 1] = &line;
        let refused = refused(format!("{}\n", lines.join("\n")).as_bytes()).await;
        assert!(refused.contains(&format!("line {number} ")) && refused.contains(why), "{why}: {refused}");
        assert!(!refused.contains("läufer"), "{refused}");
    }
    let more = format!("{text}{running}\n");
    assert!(refused(more.as_bytes()).await.contains("line 13 comes after the export's last line"));
}

/// The format does not see that two tasks share a key; the store does, and says among which lines.
#[tokio::test]
async fn what_the_store_refuses_is_told_by_its_lines() {
    let text = String::from_utf8(exported(&filled().await).await).unwrap();
    let text = text.replacen("\"key\":\"2\"", "\"key\":\"1\"", 1);
    let refused = refused(text.as_bytes()).await;
    assert!(refused.starts_with("lines 2 to 12: the idempotency key is taken"), "{refused}");
}
