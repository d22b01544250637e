//! Bytes of an upstream that are no proper messages: each hurts at most the call it belongs to, which ends at once and
//! says why; the connection lives, and the next call works.

use base64::Engine;
use serde_json::{Value, json};
use taskgate_gateway::{Gateway, StdioCommand, ToolPolicy};

use crate::harness::{Child, Modern, Old, Server, accept, logs, quick, settings, soon};

/// A server that writes what a call tells it to. `$ID` is the call's id, `$TOKEN` its progress token; a number is so many
/// million bytes without a line break. It notes what it is told that is no call of its tool.
const SERVER: &str = r#"
import base64, json, sys
notes = open(sys.argv[1], "ab", buffering=0)
def write(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
def result(id, value):
    write(json.dumps({"jsonrpc": "2.0", "id": id, "result": value}).encode() + b"\n")
for line in sys.stdin.buffer:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        result(id, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "bad", "version": "1"}})
    elif method == "tools/list":
        result(id, {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        token = json.dumps(message["params"]["_meta"]["progressToken"]).encode()
        for piece in message["params"]["arguments"]["write"]:
            if isinstance(piece, int):
                for _ in range(piece):
                    write(b"x" * 1000000)
            else:
                data = base64.b64decode(piece)
                write(data.replace(b"$ID", json.dumps(id).encode()).replace(b"$TOKEN", token))
    elif method == "server/discover":
        write(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}).encode() + b"\n")
    else:
        notes.write(line)
"#;

/// Something a server writes before, or instead of, its answer.
enum Piece {
    Bytes(Vec<u8>),
    Megabytes(u64),
}

fn text(text: &str) -> Vec<Piece> {
    vec![Piece::Bytes(text.as_bytes().to_vec())]
}

fn line(line: &str) -> Vec<Piece> {
    text(&format!("{line}\n"))
}

fn arguments(pieces: &[Piece]) -> Value {
    let pieces: Vec<Value> = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Bytes(bytes) => json!(base64::engine::general_purpose::STANDARD.encode(bytes)),
            Piece::Megabytes(count) => json!(count),
        })
        .collect();
    json!({ "write": pieces })
}

const FINE: &str = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"fine"}]}}"#;

async fn serve(child: &Child) -> Server {
    std::fs::write(child.path("bad.py"), SERVER).expect("written");
    let path = |name: &str| child.path(name).to_str().expect("UTF-8").to_owned();
    let command = StdioCommand {
        line_limit: 8 << 20,
        ..StdioCommand::new("python3").args([path("bad.py"), path("notes")])
    };
    let builder = Gateway::builder().upstream_command("bad", command).policy(quick()).settings(settings());
    Server::start(builder.tool("act", ToolPolicy::never()).build().await.expect("gateway")).await
}

async fn act(modern: &Modern, pieces: &[Piece]) -> crate::harness::Answer {
    let params = json!({"name": "act", "arguments": arguments(pieces)});
    soon("an answer", modern.ask("tools/call", params)).await
}

/// Cases 19, 32 and 33, from the other side: what is no answer is passed over, and the answer behind it arrives.
#[tokio::test(flavor = "multi_thread")]
async fn noise_is_passed_over() {
    let child = Child::new();
    let server = serve(&child).await;
    let modern = Modern::new(&server);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let noise: Vec<(&str, Vec<Piece>)> = vec![
        ("a banner", line("Listening on stdio…")),
        ("blank lines", text("\n\r\n  \n\t\r\n")),
        ("bytes that are not UTF-8", vec![Piece::Bytes(b"\xff\xfe\x80\xc3\n\xed\xa0\x80\n".to_vec())]),
        (
            "UTF-16",
            vec![Piece::Bytes(b"{\0\"\0i\0d\0\"\0:\0".to_vec()), Piece::Bytes(b"1\0}\0\n\0\n".to_vec())],
        ),
        ("NUL bytes", text("\0\0\0\n")),
        ("a byte order mark of its own", text("\u{feff}\n")),
        ("JSON that is no message", line(r#"{"level":"info","msg":"x"}"#)),
        ("an array", line("[1,2")),
        ("values", text("1\nnull\n\"x\"\ntrue\n[]\n{}\n[[]]\n[1,null,\"x\"]\n")),
        ("deep nesting", line(&deep)),
        (
            "a deep notification",
            line(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"x":{deep}}}}}"#)),
        ),
        ("200 MB without a line break", vec![Piece::Megabytes(200), Piece::Bytes(b"\n".to_vec())]),
        ("an answer to nobody", line(r#"{"jsonrpc":"2.0","id":987654321,"result":{"content":[]}}"#)),
        (
            "answers under odd ids",
            text(concat!(
                r#"{"jsonrpc":"2.0","id":"x","result":{}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","id":-1,"result":{}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","id":1e99,"result":{}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","id":{},"result":{}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","result":{}}"#,
                "\n",
            )),
        ),
        (
            "errors of nobody",
            text(concat!(
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","error":7}"#,
                "\n",
                r#"{"jsonrpc":"2.0","id":987654321,"error":{"code":1,"message":"m"}}"#,
                "\n",
            )),
        ),
        (
            "a cancel of our call, which is not its to cancel",
            line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":$ID}}"#),
        ),
        (
            "broken notifications",
            text(concat!(
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
                "\n",
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#,
                "\n",
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{},"progress":1}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":987654321,"progress":1}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":"x","message":[]}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":[1]}"#,
                "\n",
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":null}"#,
                "\n",
                r#"{"jsonrpc":"2.0","method":7}"#,
                "\n",
                r#"{"jsonrpc":"1.0","method":"x"}"#,
                "\n",
            )),
        ),
    ];
    for (what, mut pieces) in noise {
        pieces.extend(line(FINE));
        assert_eq!(act(&modern, &pieces).await.text(), "fine", "{what}");
    }
    // The answer itself, in any wrapping.
    for (what, answer) in [
        ("CRLF", format!("{FINE}\r\n")),
        ("blanks around it", format!("\t {FINE} \n")),
        ("a batch of 2025-03-26", format!("[{FINE}]\n")),
        ("a batch with noise", format!("[1,{FINE},{{}}]\n")),
        ("its id as a string", format!("{}\n", FINE.replace("$ID", "\"$ID\""))),
        ("its id as a float", format!("{}\n", FINE.replace("$ID", "$ID.0"))),
        ("unknown members", format!("{}\n", FINE.replacen('{', r#"{"x":1,"x":2,"#, 1))),
        ("twice", format!("{FINE}\n{}\n", FINE.replace("fine", "late"))),
        (
            "then an error",
            format!(
                "{FINE}\n{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"error\":{{\"code\":1,\"message\":\"late\"}}}}\n"
            ),
        ),
    ] {
        assert_eq!(act(&modern, &text(&answer)).await.text(), "fine", "{what}");
    }
    // Cut anywhere, characters included.
    let long = FINE.replace("fine", "é漢字😀한국어");
    let bytes = format!("{long}\n").into_bytes();
    let pieces: Vec<Piece> = bytes.iter().map(|byte| Piece::Bytes(vec![*byte])).collect();
    // The id is put in by whole pieces, so its name may not be cut.
    let place = long.find("$ID").expect("an id");
    let mut whole: Vec<Piece> = Vec::new();
    for (index, piece) in pieces.into_iter().enumerate() {
        match index.checked_sub(place) {
            Some(0) => whole.push(Piece::Bytes(b"$ID".to_vec())),
            Some(1 | 2) => {}
            _ => whole.push(piece),
        }
    }
    assert_eq!(act(&modern, &whole).await.text(), "é漢字😀한국어");
    logs::clean();
}

/// An answer that cannot be read ends its call at once, with a reason: nobody waits for ever.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_read_is_an_error() {
    let child = Child::new();
    let server = serve(&child).await;
    let modern = Modern::new(&server);
    let old = Old::open(&server).await;
    let answer = |rest: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,{rest}}}\n").into_bytes();
    let bad: Vec<(&str, Vec<u8>)> = vec![
        (
            "not UTF-8",
            [&answer(r#""result":{"content":[{"type":"text","text":"@"}]}"#)[..]]
                .concat()
                .into_iter()
                .map(|b| if b == b'@' { 0xe9 } else { b })
                .collect(),
        ),
        ("broken off", b"{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"content\":[\n".to_vec()),
        (
            "a line break in a string",
            answer("\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\nb\"}]}"),
        ),
        ("a bare control character", answer("\"result\":{\"x\":\"\u{1}\"}")),
        ("something behind it", b"{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}} trailing\n".to_vec()),
        ("two ids", answer(r#""id":$ID,"result":{}"#)),
        ("two results", answer(r#""result":{},"result":{}"#)),
        ("a number that is none", answer(r#""result":{"x":NaN}"#)),
        ("no version", b"{\"id\":$ID,\"result\":{}}\n".to_vec()),
        ("another version", b"{\"jsonrpc\":\"1.0\",\"id\":$ID,\"result\":{}}\n".to_vec()),
        ("result and error", answer(r#""result":{},"error":{"code":1,"message":"m"}"#)),
        ("neither", b"{\"jsonrpc\":\"2.0\",\"id\":$ID}\n".to_vec()),
        ("null", answer(r#""result":null"#)),
        ("a list", answer(r#""result":[]"#)),
        ("a word", answer(r#""result":"done""#)),
        ("an unknown kind", answer(r#""result":{"resultType":"future"}"#)),
        ("a kind that is no word", answer(r#""result":{"resultType":7}"#)),
        (
            "questions that are none",
            answer(r#""result":{"resultType":"input_required","inputRequests":[1]}"#),
        ),
        ("an error that is a word", answer(r#""error":"boom""#)),
        ("an error that is null", answer(r#""error":null"#)),
        ("an error without a code", answer(r#""error":{"message":"boom"}"#)),
        ("an error whose code is a word", answer(r#""error":{"code":"E","message":"boom"}"#)),
        ("an error without a message", answer(r#""error":{"code":1}"#)),
    ];
    for (what, bytes) in bad {
        let pieces = [Piece::Bytes(bytes)];
        let answer = act(&modern, &pieces).await;
        assert_eq!((answer.status, answer.code()), (200, -32603), "{what}: {}", answer.raw);
        let words = answer.error()["message"].as_str().expect("words");
        assert!((10..400).contains(&words.len()), "{what}: {words}");
        let params = json!({"name": "act", "arguments": arguments(&pieces)});
        let answer = soon("an answer", old.ask("tools/call", params)).await;
        assert_eq!(answer.code(), -32603, "{what}: {}", answer.raw);
        assert_eq!(act(&modern, &line(FINE)).await.text(), "fine", "after {what}");
    }
    // What such an error says is not lost.
    let odd = act(&modern, &[Piece::Bytes(answer(r#""error":{"code":"E","message":"boom","x":1.0}"#))]).await;
    assert_eq!(odd.error()["data"], json!({"code": "E", "message": "boom", "x": 1.0}));
    // An answer that is too long, under an id at either end.
    for (before, after) in [("\"id\":$ID,\"result\":\"", "\"}"), ("\"result\":\"", "\",\"id\":$ID}")] {
        let pieces = [
            Piece::Bytes(format!("{{\"jsonrpc\":\"2.0\",{before}").into_bytes()),
            Piece::Megabytes(200),
            Piece::Bytes(format!("{after}\n").into_bytes()),
        ];
        let answer = act(&modern, &pieces).await;
        assert_eq!(answer.code(), -32603);
        assert!(answer.error()["message"].as_str().expect("words").contains("8388608"), "{}", answer.raw);
        assert_eq!(act(&modern, &line(FINE)).await.text(), "fine");
    }
    logs::clean();
}

/// Requests of an upstream that are wrong get the exact error; those that are right are answered all the same.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_of_an_upstream_are_refused() {
    let child = Child::new();
    let server = serve(&child).await;
    let old = Old::open(&server).await;
    let requests: Vec<(&str, &str, i64)> = vec![
        (r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#, "a", 0),
        (r#"{"jsonrpc":"2.0","id":"b","method":"ping","params":[1]}"#, "b", -32602),
        (r#"{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"act"}}"#, "c", -32601),
        // What nobody knows here goes to the caller, who is gone before it can say anything.
        (r#"{"jsonrpc":"2.0","id":"d","method":"unknown/method"}"#, "d", -32603),
        (r#"{"jsonrpc":"2.0","id":"e","method":""}"#, "e", -32603),
        (
            r#"[{"jsonrpc":"2.0","id":"f","method":"ping"},{"jsonrpc":"2.0","id":"g","method":"nope"}]"#,
            "f",
            0,
        ),
        (r#"{"jsonrpc":"2.0","id":"h","method":"elicitation/create","params":null}"#, "h", -32602),
    ];
    for (request, id, code) in requests {
        let mut pieces = line(request);
        pieces.extend(line(FINE));
        let params = json!({"name": "act", "arguments": arguments(&pieces)});
        assert_eq!(soon("an answer", old.ask("tools/call", params)).await.text(), "fine", "{request}");
        let heard = crate::harness::eventually(id, || async {
            child.notes("").iter().find_map(|note| {
                let note: Value = serde_json::from_str(note).expect("JSON");
                (note["id"] == id).then_some(note)
            })
        })
        .await;
        assert_eq!(heard["error"]["code"].as_i64().unwrap_or(0), code, "{request}: {heard}");
    }
    // A question, answered by something that is no answer: the upstream gets an error, never that.
    for (wrong, code) in [
        (json!({"result": []}), -32603),
        (json!({"result": "x"}), -32603),
        (json!({"result": null}), -32603),
        (json!({"error": 7}), -32603),
        (json!({"error": {"code": -1, "message": "rejected", "data": [1.0]}}), -1),
        (json!({"result": accept("x")}), 0),
    ] {
        let question = format!("q{wrong}").replace('"', "'");
        let asked = json!({"jsonrpc": "2.0", "id": question, "method": "elicitation/create",
            "params": {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}}});
        let params = json!({"name": "act", "arguments": arguments(&line(&asked.to_string()))});
        let mut stream = old.begin("tools/call", params).await;
        // What is no answer is asked for again, twice.
        let times = if wrong.get("result").is_some_and(|result| !result.is_object()) { 3 } else { 1 };
        for _ in 0..times {
            let arrived: Value = serde_json::from_str(&stream.event().await.expect("asked")).expect("JSON");
            let mut answer = json!({"jsonrpc": "2.0", "id": arrived["id"]});
            answer.as_object_mut().expect("an object").extend(wrong.as_object().expect("an object").clone());
            assert_eq!(old.post(&answer).await.status, 202);
        }
        let heard = crate::harness::eventually("the answer", || async {
            child.notes("").iter().find_map(|note| {
                let note: Value = serde_json::from_str(note).expect("JSON");
                (note["id"] == question).then_some(note)
            })
        })
        .await;
        assert_eq!(heard["error"]["code"].as_i64().unwrap_or(0), code, "{wrong}: {heard}");
        if code == -1 {
            assert_eq!(heard["error"], wrong["error"]);
        }
        drop(stream);
    }
    logs::clean();
}
