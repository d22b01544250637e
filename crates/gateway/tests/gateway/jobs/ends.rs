//! How a job comes to its end, and what is seen of it until then.

use std::time::Instant;

use serde_json::{Value, json};
use taskgate_gateway::{Settings, TaskMode};

use super::{builder, forge, live, serve, task, written};
use crate::harness::job_api::Twist;
use crate::harness::{Modern, Old, Server, eventually, http, settings};

/// A call that ends soon is answered, a longer one is a task; both are one job.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_a_tool_like_any() {
    let api = forge().await;
    let server = serve(&written(&api.base, ""), TaskMode::Auto).await;
    let (modern, old) = (Modern::new(&server), Old::open(&server).await);
    let listed = modern.ask("tools/list", json!({})).await.result()["tools"].clone();
    let schema = json!({"type": "object", "properties": {"what": {"type": "string"}}});
    assert_eq!(listed, json!([{"name": "forge", "description": "Forges.", "inputSchema": schema}]));
    let call = json!({"name": "forge", "arguments": {"what": "a \"nail\"\n"}});
    let (answer, ()) = tokio::join!(modern.ask("tools/call", call.clone()), async {
        api.until("a job", |forge| forge.only().is_some().then_some(())).await;
        api.with(|forge| forge.ends(json!({"nails": 1, "of": ["iron"]})));
    });
    assert_eq!(api.with(|forge| forge.only().expect("a job").args.clone()), call["arguments"]);
    let expected = json!({"nails": 1, "of": ["iron"]});
    assert_eq!(
        (answer.text(), &answer.result()["structuredContent"]),
        (expected.to_string().as_str(), &expected)
    );
    api.with(|forge| forge.jobs.clear());
    let id = old.ask("tools/call", json!({"name": "forge", "arguments": {}, "task": {}})).await.task();
    api.until("a job", |forge| forge.only().is_some().then_some(())).await;
    api.with(|forge| forge.ends(json!("done")));
    old.until(&id, "completed").await;
    let result = old.ask("tasks/result", json!({"taskId": id})).await;
    assert_eq!((result.text(), result.result().get("structuredContent")), ("done", None));
    api.is_content();
}

/// What the API says is seen while the job runs; a word that nobody has explained counts as working and is shown.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_says_is_the_line_of_its_task() {
    let api = forge().await;
    let server = serve(&written(&api.base, ""), TaskMode::Always).await;
    let modern = Modern::new(&server);
    let id = task(&modern, "x").await;
    api.until("a job", |forge| forge.only().is_some().then_some(())).await;
    for (shows, line) in [
        (json!({"state": "RUNNING", "note": "heating"}), "heating"),
        (json!({"state": "RUNNING", "done": 3, "of": 4}), "Progress: 3/4"),
        (json!({"state": "PONDERING"}), "The job is PONDERING."),
        (json!({"state": "PONDERING", "note": "hm"}), "PONDERING: hm"),
    ] {
        api.with(|forge| forge.shows(shows));
        eventually(line, || async { (modern.get(&id).await["statusMessage"] == line).then_some(()) }).await;
        assert_eq!(modern.get(&id).await["status"], "working");
    }
    api.with(|forge| forge.ends(json!(null)));
    modern.until(&id, "completed").await;
    api.is_content();
}

/// CASE 6: whoever looks finds why.
#[tokio::test(flavor = "multi_thread")]
async fn every_end_says_why() {
    let api = forge().await;
    let server = serve(&written(&api.base, ""), TaskMode::Always).await;
    let modern = Modern::new(&server);
    let failed = |why: &'static str| {
        move |task: &Value| {
            assert_eq!(
                (&task["status"], &task["result"]["isError"]),
                (&json!("completed"), &json!(true)),
                "{task}"
            );
            assert!(task["result"]["content"][0]["text"].as_str().expect("a text").contains(why), "{task}");
        }
    };
    let broken = |why: &'static str| {
        move |task: &Value| {
            assert_eq!(task["status"], "failed", "{task}");
            assert!(task["error"]["message"].as_str().expect("a message").contains(why), "{task}");
        }
    };
    type Check = Box<dyn Fn(&Value)>;
    let cases: Vec<(Value, Check)> = vec![
        (json!({"state": "BROKEN", "why": "the iron is cold"}), Box::new(failed("the iron is cold"))),
        (json!({"state": "BROKEN"}), Box::new(failed("its state is BROKEN"))),
        (
            json!({"state": "STOPPED", "note": "by the smith"}),
            Box::new(broken("cancelled at its API: by the smith")),
        ),
        (json!({"no": "state"}), Box::new(broken("`body.state`"))),
    ];
    for (shows, check) in cases {
        let id = task(&modern, "x").await;
        api.until("a job", |forge| forge.only().is_some().then_some(())).await;
        api.with(|forge| forge.shows(shows));
        let task = eventually("an end", || async {
            let task = modern.get(&id).await;
            (task["status"] != "working").then_some(task)
        })
        .await;
        check(&task);
        // One that cannot be seen any more is not left running.
        let is_lost = task["status"] == "failed" && task["error"]["message"].to_string().contains("be seen");
        api.with(|forge| {
            assert_eq!(forge.only().expect("a job").is_cancelled, is_lost, "{task}");
            forge.jobs.clear();
        });
    }
    // One that the API does not know any more is gone, though not as soon as it was started.
    let id = task(&modern, "x").await;
    api.until("a job", |forge| forge.only().is_some().then_some(())).await;
    api.twist("status", Twist::Refuse(404, "not yet"));
    api.twist("status", Twist::Refuse(403, "not you"));
    let line = modern.until(&id, "failed").await["statusMessage"].to_string();
    assert!(line.contains("HTTP 403: not you"), "{line}");
    api.is_content();
}

/// What passes is waited out, and said; the API is left alone as long as it wants.
#[tokio::test(flavor = "multi_thread")]
async fn what_passes_is_waited_out() {
    let api = forge().await;
    let server = serve(&written(&api.base, ""), TaskMode::Always).await;
    let modern = Modern::new(&server);
    let id = task(&modern, "x").await;
    api.until("a job", |forge| forge.only().is_some().then_some(())).await;
    for twist in [Twist::Refuse(500, "oh"), Twist::Lose, Twist::RefuseWith(429, "retry-after", "1")] {
        api.twist("status", twist);
    }
    eventually("a word of it", || async {
        modern.get(&id).await["statusMessage"]
            .as_str()
            .is_some_and(|line| line.starts_with("Waiting for the job API"))
            .then_some(())
    })
    .await;
    let looks = api.heard("status").len();
    eventually("it is over", || async {
        (modern.get(&id).await["statusMessage"] == "The job is RUNNING.").then_some(())
    })
    .await;
    assert!(api.heard("status").len() > looks);
    api.twist("result", Twist::Refuse(503, "soon"));
    api.with(|forge| forge.ends(json!("x")));
    assert_eq!(modern.until(&id, "completed").await["result"]["content"][0]["text"], "x");
    api.is_content();
}

/// The job goes on when the gateway dies, and the next one finds it and its result.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_outlives_its_gateway() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    let api = forge().await;
    let life = live(&file, written(&api.base, "")).await;
    let modern = Modern::new(life.server());
    let (first, second) = (task(&modern, "1").await, task(&modern, "2").await);
    api.until("two jobs", |forge| (forge.jobs.len() == 2).then_some(())).await;
    api.heard_times("status", 4).await;
    life.kill().await;
    api.with(|forge| {
        let job = forge.jobs.values_mut().find(|job| job.args["what"] == "1").expect("the first");
        (job.result, job.shows) = (json!("one"), json!({"state": "DONE"}));
    });
    let life = live(&file, written(&api.base, "")).await;
    let modern = Modern::new(life.server());
    assert_eq!(modern.until(&first, "completed").await["result"]["content"][0]["text"], "one");
    assert_eq!(modern.get(&second).await["status"], "working");
    modern.ask("tasks/cancel", json!({"taskId": second})).await.result();
    modern.until(&second, "cancelled").await;
    api.until("it is cancelled", |forge| {
        forge.jobs.values().any(|job| job.args["what"] == "2" && job.is_cancelled).then_some(())
    })
    .await;
    assert_eq!((api.heard("start").len(), api.heard("cancel").len()), (2, 1));
    api.is_content();
}

/// An API that says that there is news is looked at, at once; whoever has no address learns nothing and wakes nobody.
#[tokio::test(flavor = "multi_thread")]
async fn news_are_looked_for_at_once() {
    let api = forge().await;
    let with_url = r#"'{"key": {{ key }}, "args": {{ {"what": args.what, "tell": callback_url} }}}'"#;
    let text = format!("public_url = \"https://mcp.example.org\"\n{}", written(&api.base, ""))
        .replace(r#"'{"key": {{ key }}, "args": {{ args }}}'"#, with_url)
        .replace("poll = \"20ms\"", "poll = \"1h\"")
        .replace("poll_max = \"50ms\"", "poll_max = \"1h\"");
    let settings = Settings { public_url: Some("https://mcp.example.org/".to_owned()), ..settings() };
    let builder = builder(&text, TaskMode::Always).settings(settings);
    let server = Server::start(builder.build().await.expect("gateway")).await;
    let modern = Modern::new(&server);
    let id = task(&modern, "x").await;
    let told = api.until("a job", |forge| forge.only().map(|job| job.args["tell"].clone())).await;
    let path = told.as_str().and_then(|url| url.strip_prefix("https://mcp.example.org")).expect("an address");
    assert!(path.starts_with("/callbacks/") && path.len() > 40, "{path}");
    assert!(!path.contains(&api.with(|forge| forge.only().expect("a job").key.clone())));
    api.heard_times("status", 1).await;
    let post = async |path: &str, body: Vec<u8>| http::send_to(server.addr, "POST", path, &body).await;
    for other in ["/callbacks/x".to_owned(), format!("{path}x"), path.replace("/callbacks/", "/callbacks/A")]
    {
        assert_eq!(post(&other, b"{}".to_vec()).await.status, 404, "{other}");
    }
    assert_eq!(post(path, vec![b'x'; 1 << 20]).await.status, 413);
    assert_eq!(api.heard("status").len(), 1);
    // However often it is told, the API is not flooded.
    let since = Instant::now();
    for _ in 0..100 {
        assert_eq!(post(path, Vec::new()).await.status, 204);
    }
    let looks = api.heard("status").len() as u128;
    assert!(looks <= 2 + since.elapsed().as_millis() / 250, "{looks} looks in {:?}", since.elapsed());
    api.with(|forge| forge.ends(json!("told")));
    assert_eq!(post(path, b"{\"state\": \"BROKEN\"}".to_vec()).await.status, 204);
    assert_eq!(modern.until(&id, "completed").await["result"]["content"][0]["text"], "told");
    assert_eq!(post(path, Vec::new()).await.status, 404);
    api.is_content();
}
