//! What becomes of a call: a result, a task, or a precise refusal.

use serde_json::{Value, json};
use taskgate_gateway::Gateway;

use crate::harness::modern::everything;
use crate::harness::{Board, Era, Modern, Old, Pipe, Server, policies, serve, steps};

const RESULT: &str = r#"{"content":[{"type":"text","text":"x","extra":1.0},{"type":"future","n":12345678901234567890}],"structuredContent":{"z":1000.0,"a":null},"isError":false,"_meta":{"k":[1]},"unknown":"é😀"}"#;

/// Case 6: a tool that says `isError` fails in 2025-11-25 and completes in 2026-07-28; its result is readable in both.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_says_error_keeps_its_payload() {
    let server = serve(&Board::new(Era::Both)).await;
    let body = json!({"content": [{"type": "text", "text": "E0308"}], "structuredContent": {"line": 7}, "isError": true});
    let old = Old::open(&server).await;
    let id = old.augmented("always", json!([{"return": body}])).await.task();
    let task = old.until(&id, "failed").await;
    assert_eq!(task["statusMessage"], "E0308");
    let mut result = old.ask("tasks/result", json!({"taskId": id})).await.result().clone();
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], json!(id));
    result.as_object_mut().expect("an object").remove("_meta");
    assert_eq!(result, body);
    let task = Modern::new(&server).until(&id, "completed").await;
    assert_eq!(task["result"]["structuredContent"], json!({"line": 7}));
    assert_eq!(task["result"]["isError"], true);
    assert!(task.get("error").is_none());
}

/// Case 6: a JSON-RPC error of the tool comes back as that very error.
#[tokio::test(flavor = "multi_thread")]
async fn a_protocol_error_comes_back_whole() {
    let server = serve(&Board::new(Era::Both)).await;
    let error = json!({"code": -32050, "message": "no such table", "data": {"table": "t"}});
    let old = Old::open(&server).await;
    let id = old.augmented("always", json!([{"error": error}])).await.task();
    assert_eq!(old.until(&id, "failed").await["statusMessage"], "no such table");
    assert_eq!(*old.ask("tasks/result", json!({"taskId": id})).await.error(), error);
    let modern = Modern::new(&server);
    let task = modern.until(&id, "failed").await;
    assert_eq!(task["error"], error);
    assert!(task.get("result").is_none());
    // The same in a plain call.
    assert_eq!(*modern.tool("never", json!([{"error": error}])).await.error(), error);
    assert_eq!(*old.tool("never", json!([{"error": error}])).await.error(), error);
}

/// Long results are copied less on their way; what arrives is the same, as are the words around it.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_result_arrives_whole() {
    let server = serve(&Board::new(Era::Both)).await;
    let (old, modern) = (Old::open(&server).await, Modern::new(&server));
    for length in [1000, 70_000, 3_000_000] {
        let text = "é\"\\\n😀x".repeat(length / 10);
        for body in [
            json!({"content": [{"type": "text", "text": text}], "isError": false, "_meta": {"k": [1]}}),
            json!({"text": text, "resultType": "complete"}),
        ] {
            let id = modern.task("always", json!([{"return": body}])).await;
            let task = modern.until(&id, "completed").await;
            let mut expected = body.clone();
            expected["resultType"] = json!("complete");
            assert_eq!(task["result"], expected);
            assert_eq!((&task["resultType"], &task["taskId"]), (&json!("complete"), &json!(id)));
            assert!(task["ttlMs"].is_u64() && task.get("error").is_none());

            let id = old.augmented("always", json!([{"return": body}])).await.task();
            old.until(&id, "completed").await;
            let mut result = old.ask("tasks/result", json!({"taskId": id})).await.result().clone();
            let meta = result["_meta"].as_object_mut().expect("metadata");
            let related = meta.remove("io.modelcontextprotocol/related-task").expect("the task");
            assert_eq!(related["taskId"], json!(id));
            if result["_meta"] == json!({}) {
                result.as_object_mut().expect("an object").remove("_meta");
            }
            let mut expected = body.clone();
            expected.as_object_mut().expect("an object").remove("resultType");
            assert_eq!(result, expected);
        }
    }
}

/// A result that is too long fails its task in every generation, with an error that says how long it was and what is allowed; a
/// call that is no task gets it all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_too_long_is_told_by_its_length() {
    let node =
        taskgate_gateway::NodeSettings { max_result: 5000, ..taskgate_gateway::NodeSettings::default() };
    let settings = taskgate_gateway::Settings { node, ..crate::harness::settings() };
    let board = Board::new(Era::Both);
    let gateway = crate::harness::builder(&board).settings(settings).build().await.expect("gateway");
    let server = Server::start(gateway).await;
    let (old, modern) = (Old::open(&server).await, Modern::new(&server));
    let body = json!({"content": [{"type": "text", "text": "x".repeat(6000)}]});
    let check = |error: &Value| {
        let message = error["message"].as_str().expect("words");
        assert!(message.contains("max_result (5000 bytes)"), "{message}");
        assert_eq!((&error["data"]["limit"], &error["data"]["value"]), (&json!("max_result"), &json!(5000)));
        assert!(error["data"]["retryAfterMs"].is_null());
        let length = error["data"]["length"].as_u64().expect("a length");
        assert!(length > 6000 && message.contains(&format!("{length} bytes")), "{message}");
        message.to_owned()
    };
    let id = modern.task("always", json!([{"return": body}])).await;
    let task = modern.until(&id, "failed").await;
    assert_eq!(task["statusMessage"], check(&task["error"]));
    assert!(task.get("result").is_none());
    let id = old.augmented("always", json!([{"return": body}])).await.task();
    let status = old.until(&id, "failed").await["statusMessage"].clone();
    assert_eq!(status, check(old.ask("tasks/result", json!({"taskId": id})).await.error()));
    assert_eq!(modern.tool("never", json!([{"return": body}])).await.result()["content"], body["content"]);
    assert_eq!(old.tool("never", json!([{"return": body}])).await.result()["content"], body["content"]);
}

/// A status line stays a line, however much an upstream has to say; the payload stays whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_status_line_stays_short() {
    let server = serve(&Board::new(Era::Both)).await;
    let modern = Modern::new(&server);
    let long = "é".repeat(100_000);
    let id =
        modern.task("always", json!([{"progress": {"progress": 1, "message": long}}, {"wait": "x"}])).await;
    let line = crate::harness::eventually("a line", || async {
        modern.get(&id).await["statusMessage"].as_str().map(ToOwned::to_owned)
    })
    .await;
    assert!(line.starts_with('é') && line.len() < 1000, "{} bytes", line.len());
    let error = json!({"code": -1, "message": long});
    for what in [
        json!([{"error": error}]),
        json!([{"return": {"isError": true, "content": [{"type": "text", "text": long}]}}]),
    ] {
        let id = modern.task("always", what).await;
        let task = crate::harness::eventually("the end", || async {
            let task = modern.get(&id).await;
            (task["status"] != "working").then_some(task)
        })
        .await;
        assert!(task["statusMessage"].as_str().is_some_and(|line| line.len() < 1000));
        assert!(task.to_string().len() > 200_000);
    }
}

/// Case 7: a handle leaves only where the caller may have one. The whole matrix.
#[tokio::test(flavor = "multi_thread")]
async fn handles_go_only_to_those_who_may_have_them() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    // A client of 2025-11-25 that declares the extension is still a client of 2025-11-25.
    let declaring = Old::with(&server, "2025-11-25", everything()).await;
    let old_06 = Old::with(&server, "2025-06-18", everything()).await;
    let modern = Modern::new(&server);
    let undeclared = Modern::without_tasks(&server);
    let arguments = |name: &str| steps(&if name == "at_once" { json!([{"sleep": 50}]) } else { json!([]) });
    let plain = |name: &str| json!({"name": name, "arguments": arguments(name)});
    let augmented = |name: &str| json!({"name": name, "arguments": arguments(name), "task": {"ttl": 60000}});
    let kind = |answer: &crate::harness::Answer| match (&answer.json["result"], &answer.json["error"]) {
        (Value::Object(result), _) if result.contains_key("task") => "nested handle".to_owned(),
        (Value::Object(result), _) if result.contains_key("taskId") => "flat handle".to_owned(),
        (Value::Object(_), _) => "result".to_owned(),
        (_, error) => error["code"].to_string(),
    };
    for (tool, old_plain, old_task, new_declared, new_undeclared) in [
        ("never", "result", "-32601", "result", "result"),
        ("always", "-32601", "nested handle", "flat handle", "-32021"),
        ("at_once", "result", "nested handle", "flat handle", "result"),
        ("do", "result", "nested handle", "result", "result"),
    ] {
        for client in [&old, &declaring] {
            assert_eq!(kind(&client.ask("tools/call", plain(tool)).await), old_plain, "{tool} plain");
            assert_eq!(kind(&client.ask("tools/call", augmented(tool)).await), old_task, "{tool} task");
        }
        for params in [plain(tool), augmented(tool)] {
            assert_eq!(kind(&modern.ask("tools/call", params.clone()).await), new_declared, "{tool}");
            let answer = undeclared.ask("tools/call", params.clone()).await;
            assert_eq!(kind(&answer), new_undeclared, "{tool}");
            if new_undeclared == "-32021" {
                let required =
                    json!({"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
                assert_eq!(answer.error()["data"], required);
                assert_eq!(answer.status, 400);
            }
            // Before 2025-11-25 there are no tasks, so nothing can be refused for want of them.
            assert_eq!(kind(&old_06.ask("tools/call", params).await), "result", "{tool}");
        }
    }
}

/// Case 7: every `tasks/*` verb without the extension is -32021, before the id is looked at.
#[tokio::test(flavor = "multi_thread")]
async fn task_verbs_need_the_extension() {
    let server = serve(&Board::new(Era::Both)).await;
    let id = Modern::new(&server).task("always", json!([])).await;
    let undeclared = Modern::without_tasks(&server);
    for id in [id.as_str(), "unknown"] {
        for verb in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let answer = undeclared.ask(verb, json!({"taskId": id, "inputResponses": {}})).await;
            assert_eq!((answer.code(), answer.status), (-32021, 400), "{verb}");
        }
    }
    for verb in ["tasks/result", "tasks/list", "ping", "initialize"] {
        let answer = Modern::new(&server).ask(verb, json!({"taskId": id})).await;
        assert_eq!((answer.code(), answer.status), (-32601, 404), "{verb}");
    }
}

/// Case 15: the result of a task is the result of the plain call, byte for byte but for what the dialect adds.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_has_the_result_of_the_plain_call() {
    for era in [Era::Session, Era::Modern, Era::Both] {
        let server = serve(&Board::new(era)).await;
        let what = json!([{"return": serde_json::from_str::<Value>(RESULT).expect("JSON")}]);
        let old = Old::open(&server).await;
        let plain = old.tool("do", what.clone()).await.result().to_string();
        assert_eq!(plain, RESULT);
        let id = old.augmented("do", what.clone()).await.task();
        let result = old.ask("tasks/result", json!({"taskId": id})).await;
        let related = format!(r#","io.modelcontextprotocol/related-task":{{"taskId":"{id}"}}}}"#);
        assert_eq!(
            result.result().to_string(),
            RESULT.replace(r#"{"k":[1]}"#, &format!(r#"{{"k":[1]{related}"#))
        );
        let modern = Modern::new(&server);
        let plain = modern.tool("do", what.clone()).await.result().to_string();
        assert_eq!(plain, format!(r#"{{"resultType":"complete",{}"#, &RESULT[1..]));
        let id = modern.task("always", what).await;
        assert_eq!(modern.until(&id, "completed").await["result"].to_string(), plain);
    }
}

/// A result is not lost for one member of a wrong type: only `true` under `isError` says error, and the rest is passed on.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_of_a_wrong_type_does_not_take_the_result_away() {
    for era in [Era::Session, Era::Modern] {
        let server = serve(&Board::new(era)).await;
        let (old, modern) = (Old::open(&server).await, Modern::new(&server));
        for odd in [json!("true"), json!(1), json!(null), json!({}), json!([true])] {
            let body = json!({"content": "no list", "isError": odd, "inputRequests": 7, "requestState": {}});
            let what = json!([{"return": body}]);
            assert_eq!(*old.tool("never", what.clone()).await.result(), body, "{era:?}");
            let id = old.augmented("always", what).await.task();
            old.until(&id, "completed").await;
            assert_eq!(modern.get(&id).await["result"]["isError"], odd, "{era:?}");
        }
    }
}

/// Case 27: an unknown `resultType` is an explicit error, of whatever type it is, and only its absence means "complete".
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_result_type_is_an_error() {
    for era in [Era::Session, Era::Modern] {
        let server = serve(&Board::new(era)).await;
        let (old, modern) = (Old::open(&server).await, Modern::new(&server));
        let odd = ["future", "Complete", "task", ""].map(Value::from);
        for kind in odd.into_iter().chain([json!(7), json!(null), json!({}), json!(["complete"])]) {
            let body = json!({"content": [{"type": "text", "text": "x"}], "resultType": kind});
            let what = json!([{"return": body}]);
            for answer in [modern.tool("never", what.clone()).await, old.tool("never", what).await] {
                let said = answer.error()["message"].as_str().expect("a message");
                assert!(answer.code() == -32603 && said.contains("unknown resultType"), "{said}");
            }
        }
        let long = json!([{"return": {"resultType": "x".repeat(100_000)}}]);
        let answer = modern.tool("never", long).await;
        assert!(answer.error()["message"].as_str().is_some_and(|said| said.len() < 1000));
    }
}

/// Case 24: the capability documents, byte for byte.
#[tokio::test(flavor = "multi_thread")]
async fn capabilities_are_spelled_exactly() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let version = env!("CARGO_PKG_VERSION");
    let want = format!(
        r#"{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{"listChanged":true}},"prompts":{{"listChanged":true}},"tasks":{{"cancel":{{}},"requests":{{"tools":{{"call":{{}}}}}}}}}},"serverInfo":{{"name":"taskgate","version":"{version}"}},"instructions":"Follow the steps."}}"#
    );
    assert_eq!(old.initialized.to_string(), want);
    let discovered = Modern::new(&server).ask("server/discover", json!({})).await;
    let want = format!(
        r#"{{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":{{"tools":{{"listChanged":true}},"prompts":{{"listChanged":true}},"extensions":{{"io.modelcontextprotocol/tasks":{{}}}}}},"instructions":"Follow the steps.","ttlMs":0,"cacheScope":"private","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"taskgate","version":"{version}"}}}}}}"#
    );
    assert_eq!(discovered.result().to_string(), want);
    let mut pipe = Pipe::start(&server.gateway);
    let local = pipe.initialize("2025-11-25", json!({})).await;
    let tasks = json!({"cancel": {}, "requests": {"tools": {"call": {}}}, "list": {}});
    assert_eq!(local.result()["capabilities"]["tasks"], tasks);
}

/// Case 25: versions without tasks hear nothing of them.
#[tokio::test(flavor = "multi_thread")]
async fn older_versions_hear_nothing_of_tasks() {
    let server = serve(&Board::new(Era::Both)).await;
    // A pipe that ends drains its gateway, and the sessions over HTTP end with that.
    let mut pipes = Vec::new();
    for (version, tasks) in
        [("2024-11-05", false), ("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)]
    {
        let old = Old::with(&server, version, json!({})).await;
        assert_eq!(old.initialized["protocolVersion"], version);
        assert_eq!(old.initialized["capabilities"].get("tasks").is_some(), tasks, "{version}");
        assert!(old.initialized["capabilities"].get("extensions").is_none());
        let tools = old.ask("tools/list", json!({})).await.result()["tools"].clone();
        for tool in tools.as_array().expect("tools") {
            assert_eq!(tool.get("execution").is_some(), tasks, "{version}: {tool}");
        }
        let get = old.ask("tasks/get", json!({"taskId": "x"})).await.code();
        assert_eq!(get, if tasks { -32602 } else { -32601 }, "{version}");
        let mut pipe = Pipe::start(&server.gateway);
        let over_stdio = pipe.initialize(version, json!({})).await;
        pipes.push(pipe);
        assert_eq!(over_stdio.result()["protocolVersion"], version);
        assert_eq!(over_stdio.result()["capabilities"].get("tasks").is_some(), tasks, "{version}");
    }
}

/// Case 25: a version nobody knows, and the one that has no sessions, are answered with the newest that has them.
#[tokio::test(flavor = "multi_thread")]
async fn other_versions_are_answered_with_the_newest_that_has_sessions() {
    let server = serve(&Board::new(Era::Both)).await;
    for version in ["2024-10-07", "2025-03-25", "2026-07-28", "2999-01-01", ""] {
        let old = Old::with(&server, version, json!({})).await;
        assert_eq!(old.initialized["protocolVersion"], "2025-11-25", "{version}");
    }
}

/// Case 26: what a tool says of tasks, for each generation.
#[tokio::test(flavor = "multi_thread")]
async fn each_tool_says_whether_it_can_be_a_task() {
    let server = serve(&Board::new(Era::Both)).await;
    let tools = Old::open(&server).await.ask("tools/list", json!({})).await.result()["tools"].clone();
    let support: Vec<_> = tools
        .as_array()
        .expect("tools")
        .iter()
        .map(|tool| {
            (
                tool["name"].as_str().expect("a name"),
                tool["execution"]["taskSupport"].as_str().expect("a word"),
            )
        })
        .collect();
    for (name, word) in support {
        let want = match name {
            "always" => "required",
            "never" => "forbidden",
            _ => "optional",
        };
        assert_eq!(word, want, "{name}");
    }
    let listed = Modern::new(&server).ask("tools/list", json!({})).await.result().clone();
    assert!(listed["tools"].as_array().expect("tools").iter().all(|tool| tool.get("execution").is_none()));
    assert_eq!((&listed["resultType"], &listed["ttlMs"]), (&json!("complete"), &json!(0)));
}

/// SEMANTICS, Lifetime: each ttl a client can think of has its defined answer.
#[tokio::test(flavor = "multi_thread")]
async fn every_ttl_has_its_answer() {
    let server = serve(&Board::new(Era::Both)).await;
    let old = Old::open(&server).await;
    let day = 24 * 3600 * 1000_u64;
    for (ttl, want) in [
        ("null", Some(day + 3_600_000)),
        ("0", Some(1000)),
        ("1", Some(1000)),
        ("60000", Some(60_000)),
        ("6e4", Some(60_000)),
        ("60000.0", Some(60_000)),
        ("999999999999", Some(8 * day)),
        ("1e300", Some(8 * day)),
        ("18446744073709551616", Some(8 * day)),
        ("-1", None),
        ("-0.5", None),
        ("1.5", None),
        ("1e999", None),
        ("\"60000\"", None),
        ("true", None),
        ("[]", None),
        ("{}", None),
    ] {
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"always","arguments":{{"steps":[{{"wait":"x"}}]}},"task":{{"ttl":{ttl}}}}}}}"#
        );
        let headers = [("Mcp-Session-Id", old.session.as_str())];
        let answer = crate::harness::http::send(server.addr, "POST", &headers, message.as_bytes())
            .await
            .answer()
            .await;
        match want {
            Some(want) => assert_eq!(answer.result()["task"]["ttl"], want, "{ttl}"),
            None => assert_eq!(answer.code(), -32602, "{ttl}"),
        }
    }
    for task in [json!(null), json!(true), json!([]), json!("x")] {
        let call = json!({"name": "always", "arguments": {}, "task": task});
        assert_eq!(old.ask("tools/call", call).await.code(), -32602, "{task}");
    }
}

/// `io.modelcontextprotocol/model-immediate-response` reaches both generations, with the call's arguments in their places, and is
/// the status message until the work says something.
#[tokio::test(flavor = "multi_thread")]
async fn the_immediate_response_is_told() {
    let board = Board::new(Era::Both);
    let policy = taskgate_gateway::ToolPolicy {
        immediate_response: Some("Started {{topic}}{{missing}}.".to_owned()),
        ..taskgate_gateway::ToolPolicy::always()
    };
    let after = taskgate_gateway::ToolPolicy {
        tasks: taskgate_gateway::TaskMode::Auto,
        inline_for: std::time::Duration::from_millis(200),
        ..policy.clone()
    };
    let builder = policies(Gateway::builder().add(board.spec("upstream"))).tool("do", policy);
    let server = Server::start(builder.tool("patient", after).build().await.expect("gateway")).await;
    let (old, modern) = (Old::open(&server).await, Modern::new(&server));
    let waits = |gate: &str| json!([{"wait": gate}, {"progress": {"progress": 1, "message": "half"}}, {"wait": "end"}]);
    let arguments = |gate: &str| {
        let mut arguments = steps(&waits(gate));
        arguments["topic"] = json!("tides\n\u{1b}");
        arguments
    };
    let call = json!({"name": "do", "arguments": arguments("a"), "task": {}});
    let created = old.ask("tools/call", call).await.result().clone();
    let said = "Started tides.";
    assert_eq!(created["_meta"]["io.modelcontextprotocol/model-immediate-response"], said);
    assert_eq!(created["task"]["statusMessage"], said);
    for tool in ["do", "patient"] {
        let call = json!({"name": tool, "arguments": arguments(tool)});
        let created = modern.ask("tools/call", call).await.result().clone();
        assert_eq!(created["statusMessage"], said, "{tool}");
        let id = created["taskId"].as_str().expect("an id").to_owned();
        assert_eq!(modern.get(&id).await["statusMessage"], said, "{tool}");
        board.open(tool);
        crate::harness::soon("the work's own words", async {
            while modern.get(&id).await["statusMessage"] != "half" {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        })
        .await;
    }
    // What the work has said before it became a task goes before it.
    board.open("b");
    let created = modern
        .ask("tools/call", json!({"name": "patient", "arguments": arguments("b")}))
        .await
        .result()
        .clone();
    assert_eq!(created["statusMessage"], "half");
}
