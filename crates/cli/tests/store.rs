//! `taskgate store`, as an administrator uses it. The export in `export.jsonl` is of the first format: as long as there is a
//! taskgate that reads it, it may be read.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use taskgate_gateway::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

const EXPORT: &str = include_str!("export.jsonl");

struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file with this text.
    fn file(&self, name: &str, text: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("written");
        path
    }

    /// A store with what is in the export.
    fn store(&self) -> PathBuf {
        let (store, export) = (self.path("tasks.db"), self.file("from.jsonl", EXPORT.as_bytes()));
        said(&taskgate(&["import", "--store", text(&store), text(&export)]), 0);
        store
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).expect("read");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain text")
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taskgate"));
    command.arg("store").args(words).env_remove("TASKGATE_STORE").env_remove("TASKGATE_LOG");
    command
}

fn taskgate(words: &[&str]) -> Output {
    command(words).output().expect("taskgate runs")
}

/// What it wrote to stderr, if it ended with this code.
fn said(output: &Output, code: i32) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    stderr
}

#[test]
fn what_is_imported_is_exported_byte_for_byte() {
    let place = Place::new();
    let store = place.store();
    let checked = taskgate(&["check", "--store", text(&store)]);
    said(&checked, 0);
    assert!(String::from_utf8_lossy(&checked.stdout).contains("9 tasks, all is well"));

    let file = place.path("to.jsonl");
    let stderr = said(&taskgate(&["export", "--store", text(&store), text(&file)]), 0);
    assert!(stderr.contains("exported 9 tasks and 1 secret"), "{stderr}");
    assert_eq!(fs::read_to_string(&file).expect("read"), EXPORT);
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);

    let piped = taskgate(&["export", "--store", text(&store)]);
    said(&piped, 0);
    assert_eq!(String::from_utf8_lossy(&piped.stdout), EXPORT);
    let again = taskgate(&["export", "--store", text(&store), text(&file)]);
    assert!(said(&again, 1).contains("is there already"));
    assert_eq!(fs::read_to_string(&file).expect("read"), EXPORT);
}

#[test]
fn an_import_reads_stdin_and_a_store_may_be_named_by_the_configuration() {
    let place = Place::new();
    let config = "store = \"named.db\"\n[[upstream]]\nname = \"x\"\ndemo = true\n";
    let config = place.file("taskgate.toml", config.as_bytes());
    let mut import = command(&["import", "--config", text(&config)]);
    let mut child = import.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("taskgate runs");
    child.stdin.take().expect("stdin").write_all(EXPORT.as_bytes()).expect("written");
    let stderr = said(&child.wait_with_output().expect("ended"), 0);
    assert!(stderr.contains("imported 9 tasks and 1 secret into") && stderr.contains("named.db"), "{stderr}");
    said(&taskgate(&["check", "--store", text(&place.path("named.db"))]), 0);
}

#[test]
fn a_vacuum_says_how_much_it_gave_back() {
    let place = Place::new();
    let store = place.store();
    let vacuum = taskgate(&["vacuum", "--store", text(&store)]);
    said(&vacuum, 0);
    let now = fs::metadata(&store).expect("there").len();
    let stdout = String::from_utf8_lossy(&vacuum.stdout).into_owned();
    assert!(stdout.contains(&format!("{now} now")) && stdout.contains("given back"), "{stdout}");
    said(&taskgate(&["check", "--store", text(&store)]), 0);
}

#[test]
fn damage_is_told_and_has_a_code_of_its_own() {
    let place = Place::new();
    let store = place.store();
    let mut bytes = fs::read(&store).expect("read");
    // The first page would make it no store at all, and the next ones leave nothing to look at.
    let last = bytes.len() - 4096;
    bytes[last..last + 64].fill(0xee);
    fs::write(&store, bytes).expect("written");
    let checked = taskgate(&["check", "--store", text(&store)]);
    assert!(said(&checked, 5).contains("things are wrong"));
    assert!(!checked.stdout.is_empty());
    assert!(!String::from_utf8_lossy(&checked.stdout).contains("all is well"));
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let place = Place::new();
    for verb in ["check", "vacuum", "export"] {
        said(&taskgate(&[verb, "--store", text(&place.path("none.db"))]), 3);
    }
    assert_eq!(place.names(), [""; 0]);
    for verb in ["check", "vacuum", "export", "import", "reseal"] {
        assert!(said(&taskgate(&[verb, "--store", "memory"]), 2).contains("gone with its process"));
    }
}

#[test]
fn a_store_in_use_is_left_alone() {
    let place = Place::new();
    let store = place.store();
    let _held = SqliteStore::open(SqliteOptions::new(&store)).expect("opened");
    for verb in ["check", "vacuum", "export", "import"] {
        let stderr = said(&taskgate(&[verb, "--store", text(&store)]), 3);
        assert!(stderr.contains("open in another taskgate"), "{stderr}");
    }
}

/// Whatever comes as an import, a store is made of it whole or not at all, and what there was stays.
#[test]
fn no_hostile_import_leaves_a_store() {
    let half = &EXPORT[..EXPORT.len() / 2];
    let lines: Vec<&str> = EXPORT.lines().collect();
    let doubled = [&lines[..4], &lines[3..]].concat().join("\n") + "\n";
    let long = format!("{}\n{}", lines[0], "x".repeat(3000));
    for (name, text_of, options, why) in [
        ("cut", half, &[][..], "was cut off"),
        ("at a line", &EXPORT[..EXPORT.rfind("{\"end\"").expect("an end")], &[], "was cut off"),
        ("garbage", "\u{0}\u{1}garbage", &[], "no export of a store"),
        ("empty", "", &[], "no export of a store"),
        ("version", &EXPORT.replacen(":1}", ":99}", 1), &[], "format 99"),
        ("doubled", &doubled, &[], "line 5 has TaskId"),
        ("garbage inside", &EXPORT.replacen("{\"task\"", "{\"täsk\"", 1), &[], "line 3 cannot be read"),
        ("long", &long, &["--max-line", "2KiB"], "--max-line is 2KiB"),
        ("a long true one", EXPORT, &["--max-line", "600B"], "--max-line is 600B"),
    ] {
        let place = Place::new();
        let (file, store) = (place.file("in.jsonl", text_of.as_bytes()), place.path("tasks.db"));
        let words = [&["import", "--store", text(&store), text(&file)], options].concat();
        let stderr = said(&taskgate(&words), 1);
        assert!(stderr.contains(why) && stderr.contains("nothing was kept"), "{name}: {stderr}");
        assert_eq!(place.names(), ["in.jsonl"], "{name}");
    }

    let place = Place::new();
    let store = place.store();
    let more = place.file("more.jsonl", EXPORT.as_bytes());
    let stderr = said(&taskgate(&["import", "--store", text(&store), text(&more)]), 1);
    assert!(stderr.contains("has tasks already") && stderr.contains("nothing was imported"), "{stderr}");
    let piped = taskgate(&["export", "--store", text(&store)]);
    assert_eq!(String::from_utf8_lossy(&piped.stdout), EXPORT);
}

/// With a key, what is imported is encrypted on the way in, stays so in exports, and comes back byte for byte.
#[test]
fn an_encrypted_store_is_exported_as_it_is_or_decrypted() {
    let place = Place::new();
    let export = place.file("from.jsonl", EXPORT.as_bytes());
    let (key, wrong) =
        (place.file("key", "01".repeat(32).as_bytes()), place.file("wrong", "02".repeat(32).as_bytes()));
    let (store, other) = (place.path("tasks.db"), place.path("other.db"));
    let with =
        |verb: &str, store: &Path, more: &[&str]| taskgate(&[&[verb, "--store", text(store)], more].concat());
    said(&with("import", &store, &["--key-file", text(&key), text(&export)]), 0);
    let decrypted = with("export", &store, &["--decrypt", "--key-file", text(&key)]);
    said(&decrypted, 0);
    assert_eq!(String::from_utf8_lossy(&decrypted.stdout), EXPORT);

    let sealed = place.path("sealed.jsonl");
    let stderr = said(&with("export", &store, &[text(&sealed)]), 0);
    assert!(stderr.contains("encrypted as they are"), "{stderr}");
    let lines = fs::read_to_string(&sealed).expect("read");
    assert!(EXPORT.contains("\"work\":\"{") && !lines.contains("\"work\":\"{"), "{lines}");
    // It needs the key that it was encrypted with, and nothing is left where that is another one.
    let refused = said(&with("import", &other, &["--key-file", text(&wrong), text(&sealed)]), 3);
    assert!(refused.contains("is encrypted with the key"), "{refused}");
    assert!(!other.exists());
    said(&with("import", &other, &[text(&sealed)]), 0);
    let decrypted =
        with("export", &other, &["--decrypt", "--key-file", text(&wrong), "--key-file", text(&key)]);
    assert_eq!(String::from_utf8_lossy(&decrypted.stdout), EXPORT);

    for (verb, more) in [("export", &["--decrypt"][..]), ("check", &["--key-file", text(&wrong)])] {
        let refused = said(&with(verb, &other, more), 3);
        assert!(refused.contains("key") && refused.contains("--key-file"), "{refused}");
    }
    let checked = with("check", &other, &[]);
    assert!(String::from_utf8_lossy(&checked.stdout).contains("was not opened"));
    let checked = with("check", &other, &["--key-file", text(&key)]);
    assert!(String::from_utf8_lossy(&checked.stdout).ends_with("9 tasks, all is well\n"));
    assert!(said(&with("reseal", &other, &[]), 2).contains("no key to encrypt with"));
    let resealed = with("reseal", &other, &["--key-file", text(&wrong), "--key-file", text(&key)]);
    said(&resealed, 0);
    let stdout = String::from_utf8_lossy(&resealed.stdout).into_owned();
    assert!(
        stdout.contains("encrypted 9 tasks and 1 secret anew") && stdout.contains("not needed any more"),
        "{stdout}"
    );
    said(&with("check", &other, &["--key-file", text(&wrong)]), 0);
    let unusable = place.file("unusable", b"sesame");
    let refused = said(&with("check", &other, &["--key-file", text(&unusable)]), 2);
    assert!(refused.contains("is no key") && !refused.contains("sesame"), "{refused}");
}

/// A wrap has no configuration: its key is a file. Once it had one, it does not go on without.
#[test]
fn a_wrap_encrypts_with_the_key_of_a_file() {
    let place = Place::new();
    let (key, store) = (place.file("key", "01".repeat(32).as_bytes()), place.path("wrap.db"));
    let wrap = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskgate"));
        command.args(["wrap", "--store", text(&store)]).args(more).args(["--", "true"]).stdin(Stdio::null());
        command.env_remove("TASKGATE_LOG").output().expect("taskgate runs")
    };
    wrap(&["--key-file", text(&key)]);
    let checked = taskgate(&["check", "--store", text(&store)]);
    assert!(String::from_utf8_lossy(&checked.stdout).contains("was not opened"));
    assert!(said(&wrap(&[]), 3).contains("is encrypted with the key"));
}

/// A disk without room for an export ends it, and no part of it is left.
#[test]
fn an_export_that_cannot_be_written_leaves_nothing() {
    let place = Place::new();
    let store = place.store();
    let full = File::options().write(true).open("/dev/full").expect("a device of Linux");
    let mut export = command(&["export", "--store", text(&store)]);
    let output = export.stdout(full).output().expect("taskgate runs");
    assert!(said(&output, 1).contains("cannot export to stdout"));
    let nowhere = place.path("missing/to.jsonl");
    assert!(
        said(&taskgate(&["export", "--store", text(&store), text(&nowhere)]), 1).contains("cannot export")
    );
}

/// Whoever reads what is printed may go away before its end, as `head` does.
#[test]
fn nobody_has_to_read_what_is_printed() {
    let place = Place::new();
    let store = place.store();
    let config = place.file("taskgate.toml", b"[[upstream]]\nname = \"demo\"\ndemo = true\n");
    for (words, file) in [
        (&["store", "check", "--store"][..], &store),
        (&["check"], &config),
        (&["check", "--print"], &config),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskgate"));
        command.args(words).arg(file).env_remove("TASKGATE_STORE").stderr(Stdio::piped());
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output =
            command.stdout(writer).spawn().and_then(|child| child.wait_with_output()).expect("it runs");
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && complaints.is_empty(), "{words:?}: {complaints}");
    }
}
