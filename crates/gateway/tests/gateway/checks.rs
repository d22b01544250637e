//! Calls and results that are held against the schemas of their tools.

use serde_json::{Value, json};
use taskgate_gateway::{CheckOutput, Gateway, ToolPolicy};

use crate::harness::{Board, Era, Modern, Old, Server, quick, settings};

/// A server whose tools have schemas: of `loose` nothing is checked, of `strict` everything, of `warned` only the log tells.
async fn serve(era: Era) -> (Board, Server) {
    let input =
        json!({"type": "object", "properties": {"steps": {"type": "array"}, "n": {"type": "integer"}}});
    let output = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let tool = |name: &str| json!({"name": name, "inputSchema": input, "outputSchema": output});
    let board = Board::with_tools(era, ["loose", "strict", "warned", "task"].map(tool).into());
    let checked = |check_output| ToolPolicy { check_arguments: true, check_output, ..quick() };
    let always = ToolPolicy { tasks: taskgate_gateway::TaskMode::Always, ..checked(CheckOutput::Error) };
    let builder = Gateway::builder()
        .add(board.spec("upstream"))
        .policy(quick())
        .tool("strict", checked(CheckOutput::Error))
        .tool("warned", checked(CheckOutput::Warn))
        .tool("task", always)
        .settings(settings());
    let server = Server::start(builder.build().await.expect("gateway")).await;
    (board, server)
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

fn refused(result: &Value, why: &str) {
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    assert_eq!((&result["isError"], text), (&json!(true), why), "{result}");
}

/// Issue 5, item 6; CASE 6: arguments that do not fit reach nobody. Versions that know of it get a result of the tool that a
/// model can read (SEP-1303), older ones an error.
#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_do_not_fit_reach_nobody() {
    for era in [Era::Session, Era::Modern] {
        let (board, server) = serve(era).await;
        let (modern, old) = (Modern::new(&server), Old::open(&server).await);
        let why = |tool: &str| format!(r#"Invalid arguments for {tool}: /n: value is not of type "integer""#);
        let wrong = json!({"n": "seven", "steps": []});
        for answer in [
            modern.ask("tools/call", call("strict", wrong.clone())).await,
            old.ask("tools/call", call("strict", wrong.clone())).await,
        ] {
            refused(answer.result(), &why("strict"));
        }
        let task = modern.ask("tools/call", call("task", wrong.clone())).await.task();
        refused(&modern.until(&task, "completed").await["result"], &why("task"));
        let before = Old::with(&server, "2025-06-18", json!({})).await;
        let error = before.ask("tools/call", call("strict", wrong.clone())).await;
        assert_eq!((error.code(), &error.error()["message"]), (-32602, &json!(why("strict"))));
        assert_eq!(board.count("calls"), 0);
        modern.ask("tools/call", call("loose", wrong)).await.result();
        let right = json!({"n": 7, "steps": [{"return": {"content": [], "structuredContent": {"n": 1}}}]});
        assert_eq!(
            modern.ask("tools/call", call("strict", right)).await.result()["structuredContent"]["n"],
            1
        );
        assert_eq!(board.count("calls"), 2);
    }
}

/// Issue 5, item 6: a result that does not fit is passed on, told of, or put aside, as the policy says.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_does_not_fit_is_not_called_one() {
    let (_, server) = serve(Era::Both).await;
    let modern = Modern::new(&server);
    let giving = |result: Value| json!({"steps": [{"return": result}]});
    let wrong = json!({"content": [{"type": "text", "text": "secret"}], "structuredContent": {"n": 1.5}});
    for name in ["loose", "warned"] {
        let answer = modern.ask("tools/call", call(name, giving(wrong.clone()))).await;
        assert_eq!(answer.result()["structuredContent"], json!({"n": 1.5}), "{name}");
    }
    let why = r#"The result of strict is not as its outputSchema says: "#;
    let answer = modern.ask("tools/call", call("strict", giving(wrong))).await;
    refused(answer.result(), &format!(r#"{why}/n: value is not of type "integer""#));
    let missing = modern.ask("tools/call", call("strict", giving(json!({"content": []})))).await;
    refused(missing.result(), &format!("{why}it has no structuredContent"));
    // An error says nothing of the kind.
    let error = json!({"content": [{"type": "text", "text": "no"}], "isError": true});
    let answer = modern.ask("tools/call", call("strict", giving(error))).await;
    refused(answer.result(), "no");
    let task = modern.ask("tools/call", call("task", giving(json!({"content": []})))).await.task();
    let ended = modern.until(&task, "completed").await;
    assert_eq!(ended["result"]["isError"], true, "{ended}");
}
