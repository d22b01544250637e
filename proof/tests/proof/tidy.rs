//! What machines can hold of the rules of ARCHITECTURE.md: who may import whom, how long a file is, what it may name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use taskgate_proof::programs::repository;

/// The longest source file, in lines. Past it, a file is two files.
const LONGEST: usize = 600;

/// Our crates, and which of our crates each may import. `taskgate-proof` may import anything and nobody imports it.
const IMPORTS: [(&str, &[&str]); 11] = [
    ("task", &[]),
    ("engine", &["task"]),
    ("wire", &["task"]),
    ("credentials", &[]),
    ("reach", &[]),
    ("client", &["task", "wire", "credentials", "reach"]),
    ("detached", &[]),
    ("job", &["credentials", "reach"]),
    ("access", &["credentials", "reach"]),
    ("gateway", &["task", "wire", "engine", "client", "credentials", "detached", "job", "access", "reach"]),
    ("cli", &["gateway", "client", "detached"]),
];

/// Outside crates that live in few places, and the places: `dev` after a colon means as a dev-dependency only.
///
/// The command line names rmcp for its demo server, as any program that hands a handler to the gateway would.
const HOMES: [(&str, &[&str]); 32] = [
    ("aho-corasick", &["credentials"]),
    ("rusqlite", &["engine", "client", "proof:dev"]),
    ("tokio-postgres", &["engine"]),
    ("deadpool-postgres", &["engine"]),
    ("axum", &["gateway", "job:dev", "fuzz"]),
    ("rmcp", &["gateway", "cli"]),
    ("reqwest", &["client", "job", "access", "reach"]),
    ("jsonwebtoken", &["access"]),
    ("wildmatch", &["access"]),
    ("x509-cert", &["access"]),
    ("ipnet", &["reach"]),
    ("minijinja", &["job", "fuzz"]),
    ("aws-sigv4", &["job"]),
    ("ring", &["job", "access"]),
    ("httpdate", &["job"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("comfy-table", &["cli"]),
    ("indicatif", &["cli"]),
    ("inquire", &["cli"]),
    ("etcetera", &["cli"]),
    ("nix", &["client", "detached"]),
    ("signal-hook", &["detached"]),
    ("tracing-subscriber", &["cli", "gateway:dev"]),
    (
        "tokio",
        &["engine", "client", "credentials", "job", "access", "reach", "gateway", "cli", "fuzz", "proof:dev"],
    ),
    ("getrandom", &["engine", "client", "gateway"]),
    ("jiff", &["wire"]),
    ("jsonschema", &["gateway"]),
    ("chacha20poly1305", &["engine"]),
    ("governor", &["gateway"]),
    ("prometheus-client", &["gateway"]),
];

/// The files of the gateway in which rmcp may be named: the upstream that speaks to it, and the two places
/// where a handler is handed in.
const RMCP: [&str; 3] = ["builder.rs", "lib.rs", "upstream/in_process.rs"];

#[test]
fn crates_import_only_what_they_may() {
    let mut wrong = Vec::new();
    for (name, allowed) in IMPORTS {
        let manifest = manifest(name);
        for section in ["dependencies", "build-dependencies"] {
            for import in names(&manifest, section).iter().filter_map(|name| name.strip_prefix("taskgate-")) {
                if !allowed.contains(&import) {
                    wrong.push(format!("{name} imports {import}"));
                }
            }
        }
        if names(&manifest, "dev-dependencies").contains("taskgate-proof") {
            wrong.push(format!("{name} imports proof"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn outside_crates_stay_where_they_live() {
    let mut wrong = Vec::new();
    let ours = IMPORTS.map(|(name, _)| name).into_iter().chain(["fuzz", "proof"]);
    for name in ours {
        let manifest = manifest(name);
        let plain = names(&manifest, "dependencies");
        let for_tests = names(&manifest, "dev-dependencies");
        for (outside, homes) in HOMES {
            let at_home = homes.contains(&name);
            if plain.contains(outside) && !at_home {
                wrong.push(format!("{name} imports {outside}"));
            }
            if for_tests.contains(outside) && !at_home && !homes.contains(&format!("{name}:dev").as_str()) {
                wrong.push(format!("the tests of {name} import {outside}"));
            }
        }
    }
    let gateway = repository().join("crates/gateway/src");
    for file in files(&gateway, &["rs"]) {
        let place = file.strip_prefix(&gateway).expect("it lies in there").to_str().expect("a plain path");
        if read(&file).contains("rmcp::") && !RMCP.contains(&place) && !place.ends_with("tests.rs") {
            wrong.push(format!("gateway/src/{place} names rmcp"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A few packed bytes can be as many as anybody likes once they are unpacked: nothing here unpacks what others send.
#[test]
fn nothing_unpacks_what_others_send() {
    let lock: toml::Table = read(&repository().join("Cargo.lock")).parse().expect("a lock file is TOML");
    let packages = lock["package"].as_array().expect("packages");
    let names: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    assert!(names.contains(&"reqwest") && names.contains(&"axum"), "these are there to be looked at");
    for codec in ["async-compression", "brotli", "brotli-decompressor", "flate2", "zstd"] {
        assert!(!names.contains(&codec), "{codec} is there: which feature of which crate asks for it?");
    }
    let manifest: toml::Table = read(&repository().join("Cargo.toml")).parse().expect("a manifest is TOML");
    let reqwest = &manifest["workspace"]["dependencies"]["reqwest"];
    assert_eq!(reqwest["default-features"].as_bool(), Some(false));
    let features: Vec<&str> =
        reqwest["features"].as_array().expect("features").iter().filter_map(toml::Value::as_str).collect();
    assert!(
        !features.iter().any(|feature| ["gzip", "brotli", "deflate", "zstd"].contains(feature)),
        "{features:?}"
    );
}

#[test]
fn no_source_file_is_too_long() {
    let sources = files(repository(), &["rs", "sql", "mjs", "py", "js", "css", "html"]);
    assert!(sources.len() > 100, "only {} files were found", sources.len());
    let long =
        sources.iter().map(|file| (read(file).lines().count(), file)).filter(|(lines, _)| *lines > LONGEST);
    let long: Vec<_> = long.collect();
    assert!(long.is_empty(), "{long:#?}");
}

/// Nothing names a path of the machine it was written on or a registry's host.
#[test]
fn nothing_names_the_machine_it_was_written_on() {
    // In halves, so that this file does not name them either.
    let unwanted = [
        ("/wo", "rk/"),
        ("/fa", "rm/"),
        ("/ro", "ot/"),
        ("artifac", "tory"),
        ("registry.", "npmjs"),
        ("files.python", "hosted"),
    ]
    .map(|(start, end)| [start, end].concat());
    let kinds = ["rs", "toml", "md", "sh", "mjs", "py", "json", "jsonl", "yml", "txt", "sql", ""];
    let mut wrong = Vec::new();
    for file in files(repository(), &kinds) {
        // What is no text names nothing.
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for (number, line) in text.lines().enumerate() {
            if unwanted.iter().any(|unwanted| names_it(line, unwanted)) {
                wrong.push(format!("{}:{}: {line}", file.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whether the line holds this path or host, other than as the end of another path.
fn names_it(line: &str, unwanted: &str) -> bool {
    line.match_indices(unwanted).any(|(place, _)| {
        !unwanted.starts_with('/')
            || !line[..place].ends_with(|before: char| before.is_alphanumeric() || "._-".contains(before))
    })
}

fn manifest(name: &str) -> toml::Table {
    let folder = match name {
        "proof" => "proof".to_owned(),
        "fuzz" => "fuzz/claims".to_owned(),
        name => format!("crates/{name}"),
    };
    read(&repository().join(folder).join("Cargo.toml")).parse().expect("a manifest is TOML")
}

/// What a section of a manifest imports, whatever the platform.
fn names(manifest: &toml::Table, section: &str) -> BTreeSet<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(|targets| targets.values().filter_map(toml::Value::as_table));
    let tables = targets.chain([manifest]).filter_map(|table| table.get(section)?.as_table());
    tables.flat_map(|table| table.keys().cloned()).collect()
}

/// The repository's files with these extensions, without what is built.
fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("the repository can be read").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type().expect("it has a type");
            if kind.is_dir()
                && ![".git", "target", "node_modules", "__pycache__"]
                    .contains(&name.to_str().unwrap_or_default())
            {
                open.push(path);
            } else if kind.is_file() {
                let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
                if extensions.contains(&extension) {
                    found.push(path);
                }
            }
        }
    }
    found
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
