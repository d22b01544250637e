//! What the documentation tells people to run, run as it stands there.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use taskgate_proof::http::Http;
use taskgate_proof::modern::Modern;
use taskgate_proof::program::Program;
use taskgate_proof::stdio::Pipe;
use taskgate_proof::{peers, programs, wait};

/// Where the pages say that the server is.
const ADDRESS: &str = "127.0.0.1:8000";

fn page(name: &str) -> String {
    let file = programs::repository().join(name);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The blocks of a page that are of a kind, with the block of another kind right behind it, if there is one.
fn blocks<'a>(page: &'a str, kind: &str, followed_by: &str) -> Vec<(&'a str, Option<&'a str>)> {
    let mut found = Vec::new();
    let mut rest = page;
    let opening = format!("```{kind}\n");
    while let Some((_, behind)) = rest.split_once(&opening) {
        let (block, behind) = behind.split_once("```").expect("the block ends");
        let next = behind.trim_start().strip_prefix(&format!("```{followed_by}\n"));
        found.push((block, next.and_then(|next| next.split_once("```")).map(|(next, _)| next)));
        rest = behind;
    }
    found
}

/// The demo, as `taskgate serve` has it, with tasks in memory.
fn serve(arguments: &[&str]) -> (Program, SocketAddr) {
    let mut command = Command::new(programs::taskgate());
    command.arg("serve").args(arguments).args(["--listen", "127.0.0.1:0", "--store", "memory"]);
    command.current_dir(programs::repository());
    Program::serve(command)
}

/// What a shell prints that runs this against the server.
fn shell(script: &str, address: SocketAddr) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", &script.replace(ADDRESS, &address.to_string())]).stdin(std::process::Stdio::null());
    let output = peers::run(command, wait::DEADLINE * 2);
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && wrong.is_empty(), "{}: {wrong}\n{said}\n{script}", output.status);
    said.into_owned()
}

/// Whether a text is as a page shows it: `…` stands for anything in a line, and on a line of its own for any lines.
fn is_as_shown(shown: &[&str], said: &[&str]) -> bool {
    match shown.split_first() {
        None => said.is_empty(),
        Some((&"…", rest)) => (0..=said.len()).any(|skipped| is_as_shown(rest, &said[skipped..])),
        Some((first, rest)) => {
            said.split_first().is_some_and(|(line, behind)| is_line(first, line) && is_as_shown(rest, behind))
        }
    }
}

fn is_line(shown: &str, said: &str) -> bool {
    let (start, rest) = match shown.split_once('…') {
        None => return shown == said,
        Some(parts) => parts,
    };
    let Some(said) = said.strip_prefix(start) else { return false };
    let mut places = said.char_indices().map(|(place, _)| place).chain([said.len()]);
    places.any(|place| is_line(rest, &said[place..]))
}

fn lines(text: &str) -> Vec<&str> {
    text.trim_end().lines().map(str::trim_end).collect()
}

#[test]
fn dots_stand_for_what_is_left_out() {
    let is = |shown: &str, said: &str| is_as_shown(&lines(shown), &lines(said));
    assert!(is("a…c\n…\nz", "abc\nx\ny\nz\n") && is("a…c\n…\nz", "ac\nz") && is("…", ""));
    assert!(!is("a…c", "abcd") && !is("a\n…\nz", "a\nb") && !is("a", "a\nb") && !is("a\nb", "a"));
}

/// Every command on the page for clients, in one shell, and what it prints.
#[test]
fn the_page_for_clients_says_what_happens() {
    let page = page("docs/clients.md");
    let blocks = blocks(&page, "sh", "text");
    assert!(blocks.len() >= 8, "the page has lost its commands");
    let end = "the end of a block";
    let script: String = blocks.iter().map(|(block, _)| format!("{block}echo '{end}'\n")).collect();
    let (_program, address) = serve(&[]);
    let said = shell(&script, address);
    for ((block, shown), said) in blocks.iter().zip(said.split(&format!("{end}\n"))) {
        let shown = shown.expect("each block is followed by what it prints");
        assert!(is_as_shown(&lines(shown), &lines(said)), "{block}\nprints\n{said}\nand not\n{shown}");
    }
}

/// CASE 12: a host without tasks, as its page shows it: the words, a call that waits in vain, and the result.
#[test]
fn the_page_for_hosts_says_what_happens() {
    let page = page("docs/hosts.md");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hosts.toml");
    fs::write(&file, blocks(&page, "toml", "")[0].0).expect("written");
    let (_program, address) = serve(&["--config", file.to_str().expect("a path")]);
    let (block, shown) = blocks(&page, "sh", "text")[0];
    let (shown, said) = (shown.expect("what it prints"), shell(block, address));
    assert!(is_as_shown(&lines(shown), &lines(&said)), "{block}\nprints\n{said}\nand not\n{shown}");
}

/// The page of the audit log: its file, a call, and what is found in it.
#[test]
fn the_page_of_the_audit_log_says_what_happens() {
    let page = page("docs/audit.md");
    let configured = blocks(&page, "toml", "");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.toml");
    // What stands at the top of a file comes first in it.
    fs::write(&file, format!("{}{}", configured[1].0, configured[0].0)).expect("written");
    let (_program, address) = serve(&["--config", file.to_str().expect("a path")]);
    let blocks = blocks(&page, "sh", "text");
    let end = "the end of a block";
    let script: String = blocks.iter().map(|(block, _)| format!("{block}echo '{end}'\n")).collect();
    let log = folder.path().join("audit.jsonl");
    let said = at_a_prompt(&script.replace("audit.jsonl", log.to_str().expect("a path")), address);
    for ((block, shown), said) in blocks.iter().zip(said.split(&format!("{end}\n"))) {
        let shown = shown.expect("each block is followed by what it prints");
        assert_eq!(lines(shown), lines(said), "{block}");
    }
}

/// The first try in the README: a call that is watched, and one that is left and come back to.
#[test]
fn the_first_try_works() {
    let page = page("README.md");
    let (_, after) = page.split_once("call its slow tool from another terminal").expect("the first try");
    let (block, _) = blocks(after, "sh", "text")[0];
    let (_program, address) = serve(&[]);
    let said = at_a_prompt(&block.replace("target/release/taskgate", "taskgate"), address);
    assert_eq!(
        lines(&said),
        ["tides", "winds"]
            .map(|topic| { format!("Report on {topic}: 5 pages in 5 seconds, and all is well.") })
    );
}

/// Every command on the page for the command line, in one shell, and what it prints on stdout.
#[test]
fn the_page_for_the_command_line_says_what_happens() {
    let page = page("docs/cli.md");
    let blocks = blocks(&page, "sh", "text");
    assert!(blocks.len() >= 6, "the page has lost its commands");
    let end = "the end of a block";
    let script: String = blocks.iter().map(|(block, _)| format!("{block}echo '{end}'\n")).collect();
    let (_program, address) = serve(&[]);
    let said = at_a_prompt(&script, address);
    for ((block, shown), said) in blocks.iter().zip(said.split(&format!("{end}\n"))) {
        let shown = shown.expect("each block is followed by what it prints");
        assert!(is_as_shown(&lines(shown), &lines(said)), "{block}\nprints\n{said}\nand not\n{shown}");
    }
}

/// What is printed by commands of ours that are found like any others, for a user who has nothing yet. What they tell people
/// meanwhile is on stderr.
fn at_a_prompt(script: &str, address: SocketAddr) -> String {
    let home = tempfile::tempdir().expect("a folder");
    let programs = programs::taskgate().parent().expect("a folder").to_owned();
    let path = std::env::var("PATH").expect("a path");
    let mut command = Command::new("sh");
    command.args(["-c", &script.replace(ADDRESS, &address.to_string())]).stdin(std::process::Stdio::null());
    command.env("PATH", format!("{}:{path}", programs.display())).current_dir(home.path());
    command.env("HOME", home.path()).env("XDG_STATE_HOME", home.path().join("state"));
    let output = peers::run(command, wait::DEADLINE * 2);
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {wrong}\n{said}\n{script}", output.status);
    said.into_owned()
}

/// The names that the page for servers shows for the example are those that clients see.
#[test]
fn several_servers_are_named_as_the_page_says() {
    let (_program, address) = serve(&["--config", "examples/several.toml"]);
    let listed = Modern::new(address).call("tools/list", json!({})).expect("a list");
    let names = listed["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]);
    let names: Vec<&str> = names.map(|name| name.as_str().expect("a name")).collect();
    assert_eq!(names.len(), 12);
    let page = page("docs/serve.md");
    let (shown, _) = blocks(&page, "text", "")[0];
    assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), names);
}

/// The two commands of the page for servers at a URL: what the second one serves is what the first one has.
#[test]
fn a_server_at_a_url_is_served_as_the_page_says() {
    let page = page("docs/upstream-http.md");
    let (commands, _) = blocks(&page, "sh", "")[0];
    assert!(commands.contains("--listen 127.0.0.1:8001") && commands.contains("--config examples/url.toml"));
    let (_far, far) = serve(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("url.toml");
    let example = self::page("examples/url.toml").replace("127.0.0.1:8001", &far.to_string());
    fs::write(&file, example).expect("the folder can be written");
    let (_near, near) = serve(&["--config", file.to_str().expect("a plain path")]);
    let mut client = Modern::new(near);
    let listed = client.call("tools/list", json!({})).expect("a list");
    let names = listed["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]);
    let names: Vec<&str> = names.map(|name| name.as_str().expect("a name")).collect();
    assert!(names.contains(&"far_slow_report") && names.contains(&"old_slow_report"), "{names:?}");
    for tool in ["far_slow_report", "old_slow_report"] {
        let task = client.create(tool, json!({ "topic": "tides", "seconds": 3 })).expect("a handle");
        let ended = client.until(&task, "completed");
        assert!(ended["result"].to_string().contains("tides"), "{tool}: {ended:#}");
    }
}

/// The line that a desktop host needs, with a server that is there in the place of the one it names.
#[test]
fn a_host_needs_no_more_than_the_page_says() {
    let page = page("docs/wrap.md");
    let config: Value = serde_json::from_str(blocks(&page, "json", "")[0].0).expect("it is JSON");
    let server = &config["mcpServers"]["crawler"];
    assert_eq!(server["command"], "taskgate");
    let words =
        server["args"].as_array().expect("arguments").iter().map(|word| word.as_str().expect("a word"));
    let state = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(programs::taskgate());
    command
        .args(words.take_while(|word| *word != "npx"))
        .arg(programs::example("conformance"))
        .arg("--plain");
    command.env("XDG_STATE_HOME", state.path());
    let mut pipe = Pipe::start(command);
    pipe.initialize("2025-03-26");
    pipe.in_session("tools/list", json!({})).expect("a list");
    pipe.close();
    let kept = fs::read_dir(state.path().join("taskgate")).expect("the state directory").flatten();
    let names: Vec<_> = kept.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    assert!(names.iter().any(|name| name.starts_with("wrap-") && name.ends_with(".db")), "{names:?}");
}

/// The program of the page for Rust: the page shows lines of it, and it does what the page says.
#[test]
fn the_embedded_gateway_is_the_one_on_the_page() {
    let (page, program) = (page("docs/embed.md"), page("examples/embed/main.rs"));
    for line in blocks(&page, "rust", "")[0].0.lines() {
        assert!(program.lines().any(|there| there.trim_start().starts_with(line.trim())), "{line}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(programs::plain_example("embed"));
    command.arg("127.0.0.1:0").env("TMPDIR", folder.path());
    let (program, address) = Program::serve(command);
    let health = Http::new(address).get("/health").expect("an answer");
    assert_eq!((health.status, &*health.body), (200, "ok"));
    let mut client = Modern::new(address);
    let task = client.create("sleep", json!({ "ms": 10 })).expect("a handle");
    client.until(&task, "completed");
    assert!(Path::new(folder.path()).join("embed-tasks.db").is_file());
    drop(program);
}

/// The programs of the page for clients: the page shows lines of them, and the shorter one does what the page says; the other one is
/// killed in `client_ledger.rs`.
#[test]
fn the_client_is_the_one_on_the_page() {
    let (page, call, ledger) =
        (page("docs/client-library.md"), page("examples/call/main.rs"), page("examples/ledger/main.rs"));
    let shown = blocks(&page, "rust", "");
    assert_eq!(shown.len(), 2);
    for (block, program) in shown.iter().zip([&call, &ledger]) {
        for line in block.0.lines() {
            assert!(program.lines().any(|there| there.trim_start().starts_with(line.trim())), "{line}");
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(programs::plain_example("embed"));
    command.arg("127.0.0.1:0").env("TMPDIR", folder.path());
    let (_server, address) = Program::serve(command);
    let call = Command::new(programs::plain_example("call"))
        .args([&format!("http://{address}/mcp"), "sleep", r#"{"ms": 10}"#])
        .output()
        .expect("it can be run");
    let (said, events) = (String::from_utf8_lossy(&call.stdout), String::from_utf8_lossy(&call.stderr));
    assert!(call.status.success() && !said.trim().is_empty(), "{said}{events}");
    assert!(events.contains("Accepted(") && events.trim_end().ends_with("Done"), "{events}");
}
