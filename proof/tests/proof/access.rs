//! Callers with tokens of an authorization server that nobody in this project wrote.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use serde_json::{Value, json};
use taskgate_client::transport::http::{Auth, ServerUrl};
use taskgate_client::{Client, HttpServer};
use taskgate_credentials::{OAuth, Secret};
use taskgate_proof::http::Http;
use taskgate_proof::modern::{answer, capabilities, request};
use taskgate_proof::program::Program;
use taskgate_proof::{modern, peers, programs, wait};

use crate::serve::url;
use crate::urls::free;

/// Base64 of `ann:geheim` and the like is what its clients show it.
const SECRET: &str = "geheim";

/// An authorization server, and a taskgate that takes its tokens.
struct Scene {
    _issuer: Program,
    issuer: SocketAddr,
    gateway: Program,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// `how` says how its tokens are believed.
    fn new(how: &str) -> Scene {
        let (issuer, address) = (free(), free());
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = peers::node_command(&peers::files().join("servers/oidc-server.mjs"));
        command.arg(issuer.port().to_string());
        let server = Program::start(command);
        wait::until("the authorization server", || {
            TcpStream::connect(issuer).ok().filter(|_| server.said().contains("peer listens"))
        });
        let config = format!(
            r#"
listen = "{address}"
store = "tasks.db"
[auth]
resource = "http://{address}/mcp"
[auth.scopes]
required = ["mcp"]
methods = {{ "tasks/cancel" = ["stop"] }}
[[auth.issuer]]
issuer = "http://{issuer}"
{how}
[[upstream]]
name = "demo"
demo = true
"#
        );
        let config = config.replace("ISSUER", &format!("http://{issuer}"));
        let file = folder.path().join("taskgate.toml");
        fs::write(&file, config).expect("the folder can be written");
        let mut command = Command::new(programs::taskgate());
        command.args(["serve", "--config"]).arg(file);
        let (gateway, address) = Program::serve(command);
        Scene { _issuer: server, issuer, gateway, address, _folder: folder }
    }

    /// What the authorization server gives a client, as it answers.
    fn token(&self, client: &str, resource: &str, scope: &str) -> String {
        let form = [("grant_type", "client_credentials"), ("resource", resource), ("scope", scope)];
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--user", &format!("{client}:{SECRET}")]);
        for (name, value) in form {
            curl.arg("--data-urlencode").arg(format!("{name}={value}"));
        }
        let output = peers::run(
            {
                curl.arg(format!("http://{}/token", self.issuer));
                curl
            },
            wait::DEADLINE,
        );
        let said: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        said["access_token"].as_str().unwrap_or_else(|| panic!("no token: {said}")).to_owned()
    }

    fn resource(&self) -> String {
        url(self.address)
    }

    /// Sends a request of 2026-07-28 with a token.
    fn ask(&self, token: &str, method: &str, params: Value) -> taskgate_proof::http::Response {
        let name = ["name", "taskId"].iter().find_map(|key| params[*key].as_str()).map(str::to_owned);
        let shown = format!("Bearer {token}");
        let body = request(json!(1), method, params, &capabilities()).to_string();
        let mut headers = vec![
            ("Authorization", shown.as_str()),
            ("MCP-Protocol-Version", modern::VERSION),
            ("Mcp-Method", method),
        ];
        headers.extend(name.as_deref().map(|name| ("Mcp-Name", name)));
        Http::new(self.address).post(&headers, &body).expect("an answer")
    }
}

/// Cases 10 and 36: tokens that a real authorization server signs are good for the resource they were asked for with, and for nothing
/// else; two clients are two owners.
#[test]
fn tokens_of_a_real_issuer_open_what_they_are_for() {
    let scene = Scene::new("");
    let ours = scene.resource();
    let token = scene.token("ann", &ours, "mcp");
    let list = scene.ask(&token, "tools/list", json!({}));
    assert_eq!(list.status, 200, "{list:?}");
    for (resource, scope, status, word) in [
        ("https://other.example/mcp", "mcp", 401, "invalid_token"),
        (&*ours, "stop", 403, "insufficient_scope"),
    ] {
        let refused = scene.ask(&scene.token("ann", resource, scope), "tools/list", json!({}));
        let challenge = refused.header("www-authenticate").expect("a challenge");
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(
            challenge.contains(&format!("error=\"{word}\"")) && challenge.contains("resource_metadata="),
            "{challenge}"
        );
    }
    // A letter of the signature is another one.
    let (start, end) = token.split_at(token.len() - 20);
    let changed = format!("{start}{}{}", if end.starts_with('A') { "B" } else { "A" }, &end[1..]);
    assert_eq!(scene.ask(&changed, "tools/list", json!({})).status, 401);
    let call = json!({ "name": "slow_report", "arguments": { "topic": "x", "seconds": 60 } });
    let created = answer(&scene.ask(&token, "tools/call", call).body).expect("a task");
    let id = json!({ "taskId": created["taskId"] });
    let bob = scene.token("bob", &ours, "mcp stop");
    let unknown = json!({ "taskId": "0".repeat(48) });
    for verb in ["tasks/get", "tasks/cancel"] {
        let [foreign, none] = [&id, &unknown].map(|id| scene.ask(&bob, verb, id.clone()));
        assert_eq!((foreign.status, foreign.body), (none.status, none.body), "{verb}");
    }
    assert_eq!(scene.ask(&token, "tasks/cancel", id.clone()).status, 403, "its own, and not allowed");
    // The same client with another token is the same owner.
    let more = scene.token("ann", &ours, "mcp stop");
    assert_eq!(scene.ask(&more, "tasks/cancel", id.clone()).status, 200);
    assert_eq!(answer(&scene.ask(&token, "tasks/get", id).body).expect("a task")["status"], "cancelled");
    let said = scene.gateway.said();
    assert!(
        ![&token, &bob, &more].iter().any(|token| said.contains(token.as_str())),
        "a token in the log: {said}"
    );
}

/// The same where the issuer has to be asked.
#[test]
fn a_real_issuer_is_asked_about_tokens_that_only_it_can_read() {
    let scene = Scene::new(&format!(
        "introspection_url = \"ISSUER/token/introspection\"\nclient_id = \"gate\"\nclient_secret = {SECRET:?}"
    ));
    let ours = scene.resource();
    let token = scene.token("opaque", &ours, "mcp");
    assert!(!token.contains('.'), "it is no JWT");
    assert_eq!(scene.ask(&token, "tools/list", json!({})).status, 200, "{}", scene.gateway.said());
    let other = scene.token("opaque", "https://other.example/mcp", "mcp");
    for wrong in [other.as_str(), "made-up"] {
        assert_eq!(scene.ask(wrong, "tools/list", json!({})).status, 401);
    }
}

/// Our own client at our own server: with a token that somebody else provides, and with what the server tells of who gives them out.
#[test]
fn our_client_finds_its_way_in() {
    let scene = Scene::new("");
    let server =
        |auth| HttpServer { auth, ..HttpServer::new(ServerUrl::parse(&scene.resource()).expect("a URL")) };
    let found = |secret: &str| {
        let oauth = OAuth::new("ann", Secret::Text(secret.to_owned()));
        server(Auth::None).oauth_found(Some(format!("http://{}", scene.issuer)), oauth)
    };
    let bearer = |token: String| server(Auth::Bearer(Secret::Text(token)));
    let good = scene.token("ann", &scene.resource(), "mcp");
    tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
        for server in [bearer(good), found(SECRET)] {
            let client = Client::builder(server).connect().await.expect("let in");
            assert!(!client.tools().await.expect("tools").is_empty());
            let result = client.call("add", json!({ "a": 1, "b": 2 })).await;
            assert!(result.is_ok(), "{result:?}");
            client.close().await;
        }
        for server in [bearer("made-up".to_owned()), found("wrong"), server(Auth::None)] {
            let let_in = match Client::builder(server).connect().await {
                Ok(client) => client.tools().await.is_ok(),
                Err(_) => false,
            };
            assert!(!let_in);
        }
    });
}

/// What docs/authorization.md shows of the example is what is said.
#[test]
fn the_page_says_what_happens() {
    let page = fs::read_to_string(programs::repository().join("docs/authorization.md")).expect("the page");
    let mut command = Command::new(programs::taskgate());
    command.args(["serve", "--config", "examples/auth.toml", "--listen", "127.0.0.1:0", "--store", "memory"]);
    command.current_dir(programs::repository());
    let (_server, address) = Program::serve(command);
    let mut shown = 0;
    for block in page.split("```console\n$ ").skip(1) {
        let (script, said) =
            block.split_once("```").expect("the block ends").0.split_once('\n').expect("an answer");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script.replace("127.0.0.1:8000", &address.to_string())]);
        let output = peers::run(shell, wait::DEADLINE);
        assert_eq!(String::from_utf8_lossy(&output.stdout).replace('\r', ""), said, "{script}");
        shown += 1;
    }
    assert_eq!(shown, 2);
}
