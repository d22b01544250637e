//! Secrets in every place where there can be one, and everything that the real binary writes and answers searched for them.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use taskgate_proof::http::Http;
use taskgate_proof::modern;
use taskgate_proof::program::Program;
use taskgate_proof::{programs, wait};

const INBOUND: &str = "s3ntinel/inbound+token";
const CLIENT_HEADER: &str = "s3ntinel/client+header";
const BEARER: &str = "s3ntinel/upstream+bearer";
const HEADER: &str = "s3ntinel/upstream+header";
const QUERY: &str = "s3ntinel/upstream+query";
const CLIENT_SECRET: &str = "s3ntinel/oauth+secret";
const ACCESS: &str = "s3ntinel/access+token";
const JOB: &str = "s3ntinel/job+token";
const VARIABLE: &str = "s3ntinel/env+variable";
const OTHER: &str = "s3ntinel/env+other";
const WORD: &str = "s3ntinel/argv+word";
const ARGUMENT: &str = "s3ntinel/marked+argument";
const NESTED: &str = "s3ntinel/nested+argument";

const CONFIGURED: [(&str, &str); 11] = [
    ("the token of a client", INBOUND),
    ("a header of a client", CLIENT_HEADER),
    ("the bearer of an upstream", BEARER),
    ("a header of an upstream", HEADER),
    ("the query of a URL", QUERY),
    ("a client secret", CLIENT_SECRET),
    ("an access token", ACCESS),
    ("the token of a job API", JOB),
    ("a variable", VARIABLE),
    ("a variable of ours", OTHER),
    ("a word of a command", WORD),
];
const MARKED: [(&str, &str); 2] = [("a marked argument", ARGUMENT), ("a nested one", NESTED)];

/// A server that tells everybody everything, but for its results.
const LEAKY: &str = r#"
import json, os, sys
known = sys.argv[1:] + [os.environ["API_TOKEN"], os.environ["OTHER"]]
def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
def tell(*words):
    print(*words, file=sys.stderr, flush=True)
tell("starting with", *known)
schema = {"type": "object", "properties": {"password": {"type": "string"}}}
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m or "method" not in m:
        continue
    p, answer = m.get("params") or {}, {"jsonrpc": "2.0", "id": m["id"]}
    if m["method"] == "initialize":
        info = {"name": "leaky", "version": "1"}
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    elif m["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": n, "inputSchema": schema} for n in ("fine", "wrong", "broken", "dies")]}
    elif m["method"] == "tools/call":
        a = p["arguments"]
        told = " ".join([str(a.get("password")), json.dumps(a)] + known)
        tell("called with", told)
        token = p.get("_meta", {}).get("progressToken")
        if token is not None:
            say({"jsonrpc": "2.0", "method": "notifications/progress",
                 "params": {"progressToken": token, "progress": 1, "message": "logging in with " + told}})
        text = lambda t: [{"type": "text", "text": t}]
        if p["name"] == "dies":
            tell("dying of", told)
            os._exit(3)
        if p["name"] == "broken":
            answer["error"] = {"code": -32000, "message": "cannot log in with " + told, "data": {"with": told}}
        elif p["name"] == "wrong":
            answer["result"] = {"content": text("cannot log in with " + told), "isError": True}
        else:
            answer["result"] = {"content": text("done")}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    say(answer)
"#;

/// An API that refuses everything and says what it was sent.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || drop(answer(stream)));
        }
    });
    address
}

fn answer(stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        reader.read_line(&mut head)?;
        let line = head[start..].trim().to_ascii_lowercase();
        if let Some(said) = line.strip_prefix("content-length:") {
            length = said.trim().parse().unwrap_or(0);
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let said = format!("you sent {head} {}", String::from_utf8_lossy(&body));
    let (status, text) = if head.contains(" /token") && !head.contains("refused") {
        ("200 OK", json!({ "access_token": ACCESS, "token_type": "Bearer" }).to_string())
    } else {
        (
            "403 Forbidden",
            json!({ "error": "refused", "error_description": said, "message": said }).to_string(),
        )
    };
    write!(
        &stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}

fn percent(value: &str) -> String {
    value.replace('/', "%2F").replace('+', "%2B")
}

fn sha256(value: &str) -> String {
    let output = Command::new("sh").args(["-c", "printf %s \"$1\" | sha256sum", "sh", value]).output();
    let output = String::from_utf8(output.expect("sha256sum").stdout).expect("text");
    output.split_whitespace().next().expect("a hash").to_owned()
}

fn configuration(echo: SocketAddr) -> String {
    format!(
        r#"
listen = "127.0.0.1:0"
store = "tasks.db"
[metrics]
listen = "127.0.0.1:0"
[audit]
file = "audit.jsonl"
[auth]
resource = "https://gate.example/mcp"
token = [{{ name = "ann", sha256 = "{hash}" }}]
[defaults]
tasks = "always"
poll_interval = "50ms"
secret_arguments = ["password", "auth.token"]
immediate_response = "Logging in with {{{{password}}}}"
[[upstream]]
name = "leaky"
command = ["python3", "-c", {leaky}, "--api-token", "{WORD}"]
env = {{ API_TOKEN = "{VARIABLE}", OTHER = {{ from_env = "OTHER_VALUE" }} }}
[upstream.defaults]
check_arguments = true
[[upstream]]
name = "far"
url = "http://{echo}/mcp?api_key={query}"
bearer = "{BEARER}"
headers = {{ X-Api-Key = "{HEADER}" }}
[[upstream]]
name = "tokened"
url = "http://{echo}/mcp"
[upstream.oauth]
token_url = "http://{echo}/token"
client_id = "me"
client_secret = "{CLIENT_SECRET}"
[[upstream]]
name = "untokened"
url = "http://{echo}/mcp"
[upstream.oauth]
token_url = "http://{echo}/token?refused=1"
client_id = "me"
client_secret = "{CLIENT_SECRET}"
secret_in = "form"
[[upstream]]
name = "jobs"
[upstream.job]
tool = "job"
auth = {{ bearer = {{ from_env = "JOB_TOKEN" }} }}
[upstream.job.start]
url = "http://{echo}/jobs"
body = '{{"password": {{{{ args.password }}}}}}'
job = {{ id = "body.id" }}
[upstream.job.status]
url = "http://{echo}/jobs/{{{{ job.id }}}}"
state = "body.state"
states = {{ DONE = "completed" }}
[[upstream]]
name = "commands"
[upstream.run]
tool = "command"
command = ["sh", "-c", "echo \"no $0\" >&2; exit 3", "{{password}}"]
"#,
        hash = sha256(INBOUND),
        leaky = toml::Value::String(LEAKY.to_owned()),
        query = percent(QUERY),
    )
}

/// What is said to a client, without what a tool itself has given as its result.
fn without_results(mut answer: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.remove("content");
                members.remove("structuredContent");
                members.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut answer);
    answer
}

struct Client {
    http: Http,
    session: Option<String>,
    heard: String,
    number: u64,
}

impl Client {
    fn send(&mut self, modern: Option<&str>, message: &Value) -> Value {
        let authorization = format!("Bearer {INBOUND}");
        let session = self.session.clone();
        let method = message["method"].as_str().expect("a method");
        let mut headers = vec![("Authorization", authorization.as_str()), ("X-Private", CLIENT_HEADER)];
        match modern {
            Some(name) => {
                headers.extend([("MCP-Protocol-Version", modern::VERSION), ("Mcp-Method", method)]);
                headers.extend((!name.is_empty()).then_some(("Mcp-Name", name)));
            }
            None => headers.extend(session.as_deref().map(|session| ("Mcp-Session-Id", session))),
        }
        let response = self.http.post(&headers, &message.to_string()).expect("an answer");
        if let Some(session) = response.header("mcp-session-id") {
            self.session = Some(session.to_owned());
        }
        let answer: Value = serde_json::from_str(&response.body).unwrap_or_default();
        let heads: Vec<_> = response.headers.iter().filter(|(name, _)| name != "mcp-session-id").collect();
        writeln!(self.heard, "{method}: {} {heads:?}", without_results(answer.clone())).expect("a string");
        answer
    }

    fn modern(&mut self, method: &str, params: Value) -> Value {
        let name =
            ["name", "taskId"].iter().find_map(|key| params[*key].as_str()).unwrap_or_default().to_owned();
        let message = modern::request(json!(1), method, params, &modern::capabilities());
        self.send(Some(&name), &message)
    }

    fn old(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.number, "method": method, "params": params });
        self.send(None, &message)
    }
}

/// Base64 of a value wherever it lies in what is encoded, as the digits that depend on it alone; and how URLs have it.
fn spellings(value: &str) -> Vec<String> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut all = vec![value.to_owned(), percent(value), percent(value).to_ascii_lowercase()];
    for before in 0..3 {
        let bits: Vec<u8> = std::iter::repeat_n(0, before)
            .chain(value.bytes())
            .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
            .collect();
        let digits = bits.chunks_exact(6).map(|six| six.iter().fold(0, |digit, bit| digit << 1 | bit));
        let digits: String = digits.map(|digit: u8| char::from(DIGITS[usize::from(digit)])).collect();
        let digits = digits[(before * 8usize).div_ceil(6)..].to_owned();
        all.push(digits.replace('+', "-").replace('/', "_"));
        all.push(digits);
    }
    all
}

fn search(place: &str, text: &str, secrets: &[(&str, &str)], found: &mut Vec<String>) {
    for (what, value) in secrets {
        for spelling in spellings(value) {
            if let Some(at) = text.find(&spelling) {
                let start = text[..at].rfind('\n').map_or(0, |start| start + 1);
                let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
                let line: String = text[start..end].chars().take(600).collect();
                found.push(format!("{what} as {spelling} in {place}: {line}"));
            }
        }
    }
}

fn files(folder: &Path, all: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path(), all),
            Ok(kind) if kind.is_file() => all.push(entry.path()),
            _ => {}
        }
    }
}

/// What the command line says of calls of the gateway and of an API that refuses everything. What it remembers lies in the folder.
fn commands(folder: &Path, gateway: SocketAddr) -> String {
    let mut said = String::new();
    let query = percent(QUERY);
    for (url, token) in [
        (format!("http://{gateway}/mcp?api_key={query}"), INBOUND),
        (format!("http://{}/mcp?api_key={query}", echo()), BEARER),
    ] {
        let mut command = Command::new(programs::taskgate());
        let header = format!("X-Api-Key: {HEADER}");
        command.args([
            "call",
            &url,
            "broken",
            "password=other",
            "--header",
            &header,
            "--bearer-env",
            "TOKEN",
        ]);
        command.current_dir(folder).env("XDG_STATE_HOME", folder.join("state"));
        let output = command.env("TASKGATE_LOG", "trace").env("TOKEN", token).output().expect("it runs");
        assert!(!output.status.success());
        said.push_str(&String::from_utf8_lossy(&output.stdout));
        said.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    assert!(said.contains("TRACE") && folder.join("state").is_dir());
    said
}

/// No secret is in any log, file, number or answer, but where it must be: in the store what is still to be done and what a tool
/// has answered, and with a command its arguments.
#[test]
fn no_secret_is_anywhere_but_where_it_must_be() {
    let folder = tempfile::Builder::new().prefix("taskgate-secrets-").tempdir().expect("a folder");
    let config = folder.path().join("taskgate.toml");
    fs::write(&config, configuration(echo())).expect("written");
    let mut command = Command::new(programs::taskgate());
    command.args(["serve", "--config", "taskgate.toml"]).current_dir(folder.path());
    command.env("TASKGATE_LOG", "trace").env("JOB_TOKEN", JOB).env("OTHER_VALUE", OTHER);
    let (gateway, address) = Program::serve(command);
    let numbers = wait::until("where the numbers are", || {
        let said = gateway.said();
        let (_, rest) = said.split_once("numbers at http://")?;
        rest.split_once("/metrics")?.0.parse::<SocketAddr>().ok()
    });
    let mut client = Client { http: Http::new(address), session: None, heard: String::new(), number: 0 };
    let arguments = json!({ "password": ARGUMENT, "auth": { "token": NESTED } });
    wait::until("the server", || {
        let list = client.modern("tools/list", json!({}));
        list.to_string().contains("broken").then_some(())
    });
    let tools = ["fine", "wrong", "broken", "dies", "job", "command"];
    let mut ids = Vec::new();
    for tool in tools {
        let made = client.modern("tools/call", json!({ "name": tool, "arguments": arguments }));
        let id = made["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{tool}: {made}")).to_owned();
        let ended = wait::until(&format!("the end of {tool}"), || {
            let task = client.modern("tasks/get", json!({ "taskId": id }));
            let status = task["result"]["status"].as_str().unwrap_or("none").to_owned();
            ["completed", "failed"].contains(&&*status).then_some(task)
        });
        if tool == "broken" || tool == "dies" {
            assert!(ended.to_string().contains("[redacted]"), "{tool} says nothing: {ended}");
        }
        ids.push(id);
    }
    client.modern("tools/call", json!({ "name": "fine", "arguments": { "password": [ARGUMENT] } }));
    client.modern("tasks/get", json!({ "taskId": "00" }));

    let info = json!({ "name": "proof", "version": "1" });
    let able =
        json!({ "protocolVersion": "2025-11-25", "capabilities": { "tasks": {} }, "clientInfo": info });
    client.old("initialize", able);
    for (number, tool) in tools.into_iter().enumerate() {
        let made = client
            .old("tools/call", json!({ "name": tool, "arguments": arguments, "task": { "ttl": 60000 } }));
        let id =
            made["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{tool}: {made}")).to_owned();
        client.old("tasks/result", json!({ "taskId": id }));
        client.old("tasks/get", json!({ "taskId": id }));
        let meta = json!({ "modelcontextprotocol.io/task": { "taskId": format!("mine-{number}") } });
        client.old("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta }));
        ids.push(id);
    }
    client.old("tasks/list", json!({}));
    let refused = Http::new(address).post(&[("Authorization", "Bearer wrong")], "{}").expect("an answer");
    client.heard.push_str(&refused.body);
    let measured = Http::new(numbers).get("/metrics").expect("the numbers").body;
    let (mut shown, mut found) = (String::new(), Vec::new());
    let mut run = |words: &[&str]| {
        let mut command = Command::new(programs::taskgate());
        let output = command.args(words).current_dir(folder.path()).output().expect("it runs");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        shown.push_str(&String::from_utf8_lossy(&output.stdout));
        shown.push_str(&String::from_utf8_lossy(&output.stderr));
    };
    run(&["tasks", "list", "--store", "tasks.db", "--output", "json"]);
    ids.iter().for_each(|id| run(&["tasks", "show", id, "--store", "tasks.db"]));
    let said = commands(folder.path(), address);
    search("the command line", &said, &CONFIGURED, &mut found);
    let said = gateway.said();
    assert!(said.contains("TRACE"), "the log is not at its finest");
    assert!(said.contains("called with [redacted]"), "what a server writes is not in the log");
    gateway.terminate();

    let all: Vec<_> = CONFIGURED.into_iter().chain(MARKED).collect();
    search("the log", &said, &all, &mut found);
    search("what clients were told", &client.heard, &all, &mut found);
    search("the numbers", &measured, &all, &mut found);
    search("taskgate tasks", &shown, &all, &mut found);
    let mut written = Vec::new();
    files(folder.path(), &mut written);
    assert!(written.iter().any(|file| file.ends_with("audit.jsonl")));
    for file in written.iter().filter(|file| **file != config) {
        let text = String::from_utf8_lossy(&fs::read(file).expect("read")).into_owned();
        let place = file.display().to_string();
        // What was to be done, and what `wrong` has answered: both are the store's to keep.
        let is_store = place.contains("tasks.db");
        let secrets: Vec<_> = match is_store {
            true => {
                CONFIGURED.into_iter().filter(|(_, value)| ![VARIABLE, OTHER, WORD].contains(value)).collect()
            }
            false => all.clone(),
        };
        search(&place, &text, &secrets, &mut found);
    }
    found.truncate(40);
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n"));
}
