use std::fs;

use tempfile::TempDir;

use super::hosts::find;
use super::*;

/// A home with a project in it, and what is around a program that is started there.
fn place(files: &[(&str, &str)]) -> (TempDir, Surroundings) {
    let home = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("written");
    }
    let directory = home.path().join("project/src");
    fs::create_dir_all(&directory).expect("made");
    let variables = [("TOKEN", "sesame"), ("EMPTY", "")].map(|(name, value)| (name.into(), value.into()));
    let around = Surroundings {
        directory: Some(directory),
        home: Some(home.path().to_owned()),
        variables: variables.into(),
    };
    (home, around)
}

fn http(url: &str, headers: &[(&str, &str)]) -> Entry {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Entry::Http { url: url.to_owned(), headers }
}

#[test]
fn names_are_found_where_hosts_keep_them_the_nearest_first() {
    let (home, around) = place(&[
        ("project/.mcp.json", r#"{"mcpServers": {"one": {"url": "http://near/mcp"}}}"#),
        (
            "project/.vscode/mcp.json",
            "{\n  // comments are usual here\n  \"servers\": {\"two\": {\"type\": \"http\", \"url\": \"http://two//mcp\",},},\n}",
        ),
        (
            ".cursor/mcp.json",
            r#"{"mcpServers": {"one": {"url": "http://far/mcp"}, "three": {"command": "npx"}}}"#,
        ),
        (
            ".config/Claude/claude_desktop_config.json",
            r#"{"mcpServers": {"four": {"command": "uvx", "args": ["x"]}}}"#,
        ),
    ]);
    let entry = |name| find(name, None, &around).expect("it is there");
    assert_eq!(entry("one"), http("http://near/mcp", &[]));
    assert_eq!(entry("two"), http("http://two//mcp", &[]));
    assert!(matches!(entry("three"), Entry::Command { program, .. } if program == "npx"));
    assert!(matches!(entry("four"), Entry::Command { args, .. } if args == ["x"]));
    let far = home.path().join(".cursor/mcp.json");
    assert_eq!(find("one", Some(&far), &around).expect("it is there"), http("http://far/mcp", &[]));
}

#[test]
fn a_project_in_the_users_file_goes_before_the_user() {
    let (home, around) = place(&[]);
    let project = home.path().join("project");
    let text = serde_json::json!({
        "mcpServers": {"one": {"url": "http://user/mcp"}, "two": {"url": "http://user/2"}},
        "projects": {project.to_str().expect("text"): {"mcpServers": {"one": {"url": "http://project/mcp"}}}},
    });
    fs::write(home.path().join(".claude.json"), text.to_string()).expect("written");
    assert_eq!(find("one", None, &around).expect("it is there"), http("http://project/mcp", &[]));
    assert_eq!(find("two", None, &around).expect("it is there"), http("http://user/2", &[]));
}

#[test]
fn variables_are_replaced_and_what_is_missing_is_named() {
    let entry = r#"{"mcpServers": {
        "ok": {"url": "http://x/${PATH_OF_IT:-mcp}", "headers": {"Authorization": "Bearer ${TOKEN}", "X": "a${EMPTY}b"}},
        "editor": {"command": "${workspaceFolder}/run", "env": {"T": "${env:TOKEN}", "N": 5}},
        "unset": {"url": "http://x/${NOT_SET}"},
        "asks": {"command": "x", "args": ["${input:key}"]},
        "both": {"url": "http://x", "command": "y"},
        "neither": {},
        "old": {"type": "sse", "url": "http://x/sse"}
    }}"#;
    let (home, around) = place(&[("project/.mcp.json", entry)]);
    let found = find("ok", None, &around).expect("it is there");
    assert_eq!(found, http("http://x/mcp", &[("Authorization", "Bearer sesame"), ("X", "ab")]));
    let Entry::Command { program, env, .. } = find("editor", None, &around).expect("it is there") else {
        panic!("a command");
    };
    assert_eq!(program, home.path().join("project/run").to_str().expect("text"));
    assert_eq!(env, [("T", "sesame"), ("N", "5")].map(|(name, value)| (name.to_owned(), value.to_owned())));
    for (name, why) in [
        ("unset", "NOT_SET is not set"),
        ("asks", "${input:key}"),
        ("both", "a url and a command"),
        ("neither", "neither a url nor a command"),
        ("old", "SSE"),
    ] {
        let failure = find(name, None, &around).expect_err(name);
        assert_eq!(failure.code, ExitCode::Invalid);
        assert!(
            failure.message.contains(why) && failure.message.contains(".mcp.json"),
            "{}",
            failure.message
        );
    }
}

#[test]
fn a_name_that_is_nowhere_is_told_with_where_it_was_looked_for() {
    let (_home, around) = place(&[
        ("project/.mcp.json", r#"{"mcpServers": {"one": {"url": "http://x/mcp"}, "other": {}}}"#),
        (".claude.json", "{ this is none"),
        (".cursor/mcp.json", "{}"),
    ]);
    let said = find("two", None, &around).expect_err("none").message;
    for part in
        ["\"two\"", "project/.mcp.json: one, other", ".claude.json: is no JSON", "mcp.json: no servers"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = find("two", None, &Surroundings::default()).expect_err("none").message;
    assert!(said.contains("--config"), "{said}");
}

/// Case 37.
#[test]
fn credentials_come_from_options_and_are_not_shown() {
    let (_home, around) = place(&[]);
    let server = Server {
        header: vec!["X-Key: sesame".parse().expect("a header")],
        bearer_env: Some("TOKEN".to_owned()),
        ..Server::default()
    };
    let target = find_in(&read("https://x.example/mcp"), &server, &around).expect("a server");
    let Endpoint::Url(http) = &target.endpoint else { panic!("a URL") };
    assert_eq!(http.auth, Auth::Bearer(Secret::Text("sesame".to_owned())));
    assert!(!format!("{target:?} {server:?}").contains("sesame"));
    let refused = find_in(&read("http://x.example/mcp"), &server, &around).expect_err("is refused");
    assert!(refused.message.contains("--plain-http"), "{}", refused.message);
    let server = Server { command: vec!["npx".to_owned()], ..server };
    assert!(find_in(&Named::Command, &server, &around).is_err());
    let unset = Server { bearer_env: Some("NOT_SET".to_owned()), ..Server::default() };
    assert!(find_in(&read("https://x/mcp"), &unset, &around).expect_err("unset").message.contains("NOT_SET"));
}
