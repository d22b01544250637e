//! Commands that are tools, as far as it takes no supervisor; `proof` has the rest, with the real program.

use std::path::Path;

use serde_json::json;
use taskgate_gateway::{
    BuildError, CommandTool, Commands, Gateway, GatewayBuilder, Launcher, ToolSchema, UpstreamKind,
    UpstreamSpec,
};

use crate::harness::{Board, Era, Modern, Old, Server, eventually, quick, settings};

fn tool() -> CommandTool {
    let schema = json!({"type": "object", "properties": {"scene": {"type": "string"}}});
    CommandTool {
        description: Some("Renders a scene.".to_owned()),
        input_schema: ToolSchema::new(&schema).expect("a schema"),
        ..CommandTool::new("render", ["true"])
    }
}

fn builder() -> GatewayBuilder {
    let jobs = UpstreamSpec::new("jobs", UpstreamKind::Command(tool()));
    Gateway::builder().add(jobs).policy(quick()).settings(settings())
}

async fn serve(builder: GatewayBuilder, work: &Path, supervisor: &str) -> Server {
    let launcher = Launcher { program: supervisor.into(), args: Vec::new() };
    let builder = builder.commands(Commands { work: work.to_owned(), launcher });
    Server::start(builder.build().await.expect("gateway")).await
}

/// Beside the tools of other upstreams and in every generation.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_listed_like_any_tool() {
    let work = tempfile::tempdir().expect("a directory");
    let server = serve(builder().add(Board::new(Era::Both).spec("board")), work.path(), "/bin/false").await;
    let expected = json!({
        "name": "render", "description": "Renders a scene.",
        "inputSchema": {"type": "object", "properties": {"scene": {"type": "string"}}},
    });
    let (modern, old) = (Modern::new(&server), Old::open(&server).await);
    for answer in [modern.ask("tools/list", json!({})).await, old.ask("tools/list", json!({})).await] {
        let tools = answer.result()["tools"].as_array().expect("tools").clone();
        let mut listed = tools.into_iter().find(|tool| tool["name"] == "render").expect("the command");
        listed.as_object_mut().expect("an object").remove("execution");
        assert_eq!(listed, expected);
    }
    // What it does not have is somebody else's.
    let done = json!({"content": [{"type": "text", "text": "x"}]});
    assert!(modern.ask("prompts/list", json!({})).await.result()["prompts"].is_array());
    assert_eq!(modern.tool("do", json!([{"return": done}])).await.text(), "x");
}

/// Whoever calls hears why, and nothing of it lies about.
#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_that_does_not_begin_fails_the_call() {
    for (supervisor, why) in [("/no/such/program", "cannot be started"), ("/bin/false", "did not begin it")] {
        let work = tempfile::tempdir().expect("a directory");
        let server = serve(builder(), work.path(), supervisor).await;
        let call = json!({"name": "render", "arguments": {}});
        let modern = Modern::new(&server);
        let said = modern.ask("tools/call", call.clone()).await.error()["message"].to_string();
        assert!(said.contains(why), "{said}");
        let old = Old::open(&server).await;
        let id = old.ask("tools/call", json!({"name": "render", "arguments": {}, "task": {}})).await.task();
        let line = old.until(&id, "failed").await["statusMessage"].to_string();
        assert!(line.contains(why), "{line}");
        eventually("an empty work directory", || async {
            let entries = std::fs::read_dir(work.path()).expect("a directory").flatten();
            (entries.filter(|entry| entry.path().is_dir()).count() == 0).then_some(())
        })
        .await;
    }
}

/// CASE 6: in the words of each version, and nothing is started: with this supervisor that would be another error.
#[cfg(feature = "jsonschema")]
#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_do_not_fit_are_refused_and_nothing_starts() {
    let work = tempfile::tempdir().expect("a directory");
    let server = serve(builder(), work.path(), "/no/such/program").await;
    let call = json!({"name": "render", "arguments": {"scene": 5}});
    let why = r#"Invalid arguments for render: /scene: value is not of type "string""#;
    let refused = |result: &serde_json::Value| {
        assert_eq!(
            (result["isError"].as_bool(), result["content"][0]["text"].as_str()),
            (Some(true), Some(why))
        );
    };
    refused(Modern::new(&server).ask("tools/call", call.clone()).await.result());
    let old = Old::open(&server).await;
    refused(old.ask("tools/call", call.clone()).await.result());
    // What was to be a task is one, since its caller can read nothing else.
    let id =
        old.ask("tools/call", json!({"name": "render", "arguments": {"scene": 5}, "task": {}})).await.task();
    assert_eq!(old.until(&id, "failed").await["statusMessage"], why);
    refused(old.ask("tasks/result", json!({"taskId": id})).await.result());
    let before = Old::with(&server, "2025-06-18", json!({})).await.ask("tools/call", call).await;
    assert_eq!(
        (before.error()["code"].as_i64(), before.error()["message"].as_str()),
        (Some(-32602), Some(why))
    );
    let left = std::fs::read_dir(work.path()).expect("a directory").flatten();
    assert_eq!(left.filter(|entry| entry.path().is_dir()).count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_needs_a_place() {
    let error = builder().build().await.expect_err("there is no place");
    assert!(matches!(error, BuildError::NoPlace(name) if name == "jobs"));
}
