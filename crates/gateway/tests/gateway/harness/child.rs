//! Servers in processes of their own: small scripts in a temporary directory.

use std::path::PathBuf;

use taskgate_gateway::StdioCommand;
use tempfile::TempDir;

/// A server of 2025-11-25 that does what `arguments.do` says. It notes its starts in a file.
const SERVER: &str = r#"
import json, os, signal, sys, time
notes, mode = sys.argv[1], sys.argv[2]
def note(text):
    with open(notes, "a") as file:
        file.write(text + "\n")
note("start %d" % os.getpid())
if mode == "dies":
    time.sleep(0.05)
    sys.exit(7)
def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
def raw(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
def text(id, value, **more):
    say({"jsonrpc": "2.0", "id": id, "result": dict({"content": [{"type": "text", "text": value}]}, **more)})
waiting = None
for line in sys.stdin.buffer:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        say({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "child", "version": "1"}}})
    elif method == "tools/list":
        say({"jsonrpc": "2.0", "id": id, "result": {"tools": [
            {"name": "act", "inputSchema": {"type": "object"}},
            {"name": "reread", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": True}}]}})
    elif method == "tools/call":
        arguments = message["params"]["arguments"]
        do = arguments["do"]
        if do == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif do == "exit":
            sys.stderr.write("the last words\n")
            sys.stderr.flush()
            sys.exit(3)
        elif do == "silence":
            note("silent")
        elif do == "length":
            text(id, str(len(arguments["text"])))
        elif do == "shout":
            for n in range(256):
                raw(b"x" * 4095 + b"\n")
            text(id, str(len(arguments["text"])))
        elif do == "big":
            text(id, "y" * arguments["size"])
        elif do == "big_id_last":
            value = json.dumps("z" * arguments["size"])
            raw(('{"result":{"content":[{"type":"text","text":%s}]},"jsonrpc":"2.0","id":%d}\n' % (value, id)).encode())
        elif do == "garbage":
            raw(b"Listening on stdio...\n\xff\xfe\n{\"level\":\"info\"}\n[1,2\n\r\n")
            raw(('\ufeff' * 0 + json.dumps({"jsonrpc": "2.0", "id": id, "result": {"content": []}}) + "\r\n").encode())
        elif do == "drip":
            answer = {"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": arguments["text"]}]}}
            for byte in (json.dumps(answer, ensure_ascii=False) + "\n").encode():
                raw(bytes([byte]))
        elif do == "ask":
            note("before")
            waiting = id
            say({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"mode": "form", "message": "?",
                "requestedSchema": {"type": "object", "properties": {}}}})
        elif do == "grandchild":
            import subprocess
            child = subprocess.Popen(["sleep", "300"])
            text(id, "%d %d" % (os.getpid(), child.pid))
        elif do == "deep":
            raw(('{"jsonrpc":"2.0","id":%d,"result":{"content":[],"x":%s}}\n' % (id, "[" * 100000 + "]" * 100000)).encode())
        elif do == "null":
            say({"jsonrpc": "2.0", "id": id, "result": None})
        elif do == "list":
            say({"jsonrpc": "2.0", "id": id, "result": []})
        elif do == "twice":
            text(id, "first")
            text(id, "second")
        elif do == "both":
            say({"jsonrpc": "2.0", "id": id, "result": {}, "error": {"code": 1, "message": "both"}})
        elif do == "neither":
            say({"jsonrpc": "2.0", "id": id})
        elif do == "future":
            say({"jsonrpc": "2.0", "id": id, "result": {"resultType": "future"}})
        elif do == "string_id":
            text(str(id), "as a string")
    elif method == "notifications/cancelled":
        note("cancelled %s" % json.dumps(message["params"]["requestId"]))
    elif id == "q" and waiting is not None:
        note("after")
        text(waiting, json.dumps(message.get("result")))
    elif method is not None and id is not None:
        if mode == "exits_on_probe":
            sys.exit(1)
        say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}})
"#;

/// A script and what it noted.
pub struct Child {
    directory: TempDir,
}

impl Child {
    /// Writes the script.
    pub fn new() -> Child {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("server.py"), SERVER).expect("written");
        Child { directory }
    }

    /// A path in its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// How to start it. `dies` ends after 50 ms, `exits_on_probe` at an unknown method, anything else lives.
    pub fn command(&self, mode: &str) -> StdioCommand {
        let (script, notes) = (self.path("server.py"), self.path("notes"));
        let arguments = [script.to_str().expect("UTF-8"), notes.to_str().expect("UTF-8"), mode];
        StdioCommand {
            grace: std::time::Duration::from_millis(500),
            ..StdioCommand::new("python3").args(arguments)
        }
    }

    /// The lines it noted that start like this.
    pub fn notes(&self, start: &str) -> Vec<String> {
        let notes = std::fs::read_to_string(self.path("notes")).unwrap_or_default();
        notes.lines().filter(|line| line.starts_with(start)).map(ToOwned::to_owned).collect()
    }
}
