//! Commands that are tools, as far as it takes no supervisor; `proof` has the rest, with the real program.

use std::path::Path;

use serde_json::json;
use taskgate_gateway::{
    BuildError, CommandTool, Commands, Gateway, GatewayBuilder, Launcher, Payload, UpstreamKind, UpstreamSpec,
};

use crate::harness::{Board, Era, Modern, Old, Server, eventually, quick, settings};

fn tool() -> CommandTool {
    let schema = json!({"type": "object", "properties": {"scene": {"type": "string"}}});
    CommandTool {
        description: Some("Renders a scene.".to_owned()),
        input_schema: Payload::from_value(&schema).expect("JSON"),
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

#[tokio::test(flavor = "multi_thread")]
async fn a_command_needs_a_place() {
    let error = builder().build().await.expect_err("there is no place");
    assert!(matches!(error, BuildError::NoPlace(name) if name == "jobs"));
}
