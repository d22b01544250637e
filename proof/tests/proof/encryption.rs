//! What callers send and get is in no file and no table of an encrypted store, and comes back to whoever has the key.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;
use taskgate_proof::modern::Modern;
use taskgate_proof::postgres::{Postgres, psql};
use taskgate_proof::program::Program;
use taskgate_proof::{programs, wait};

const SERVER: &str = env!("CARGO_BIN_EXE_scripted-server");
/// Stands in every value.
const SENTINEL: &str = "kingfisher";
const OLD: &str = "0101010101010101010101010101010101010101010101010101010101010101";
const NEW: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

/// A store in a folder, or a database, of its own, and what else there is beside it.
struct Site {
    folder: tempfile::TempDir,
    place: String,
}

impl Site {
    fn sqlite() -> Site {
        let folder = tempfile::Builder::new().prefix("taskgate-sealed-").tempdir().expect("a folder");
        let place = folder.path().join("store/tasks.db").to_str().expect("a plain path").to_owned();
        Site { folder, place }
    }

    fn postgres() -> Site {
        Site { place: Postgres::shared().database(), ..Site::sqlite() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A configuration with these keys, the first in front.
    fn configure(&self, keys: &[&str]) -> PathBuf {
        let mut sources = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            let name = format!("key{number}");
            fs::write(self.path(&name), format!("{key}\n")).expect("written");
            sources.push(format!("{{ from_file = {name:?} }}"));
        }
        let encryption = match sources.is_empty() {
            true => String::new(),
            false => format!("[encryption]\nkeys = [{}]", sources.join(", ")),
        };
        let config = format!(
            r#"
            listen = "127.0.0.1:0"
            single_user = true
            store = {:?}
            lease = "2s"
            heartbeat = "500ms"
            {encryption}
            [defaults]
            tasks = "always"
            poll_interval = "10ms"
            after_crash = "fail"
            [[upstream]]
            name = "scripted"
            command = [{SERVER:?}, {:?}]
            "#,
            self.place,
            self.folder.path()
        );
        let file = self.path("taskgate.toml");
        fs::write(&file, config).expect("written");
        file
    }

    fn serve(&self, keys: &[&str]) -> (Program, SocketAddr) {
        let mut command = Command::new(programs::taskgate());
        command.args(["serve", "--config"]).arg(self.configure(keys));
        Program::serve(command)
    }

    fn taskgate(&self, words: &[&str], keys: &[&str]) -> Output {
        let mut command = Command::new(programs::taskgate());
        command.args(words).arg("--config").arg(self.configure(keys)).env_remove("TASKGATE_STORE");
        command.output().expect("taskgate runs")
    }

    /// A start that must fail, and what it says.
    fn refused(&self, keys: &[&str]) -> String {
        let output = self.taskgate(&["serve"], keys);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{said}");
        said
    }

    /// How often the sentinel can be read by somebody who has all of the store.
    fn readable(&self) -> usize {
        if self.place.starts_with("postgres") {
            let tables = psql(
                &self.place,
                "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables
                 WHERE schemaname NOT IN ('pg_catalog', 'information_schema')",
            );
            assert!(tables.contains("taskgate.task"), "{tables}");
            let rows =
                tables.lines().map(|table| psql(&self.place, &format!("SELECT t::text FROM {table} t")));
            return rows.map(|rows| rows.matches(SENTINEL).count()).sum();
        }
        let files = fs::read_dir(self.path("store")).expect("the store's folder");
        let files = files.map(|file| file.expect("a file").path()).filter(|file| file.is_file());
        files.map(|file| count(&file)).sum()
    }
}

fn count(file: &Path) -> usize {
    let bytes = fs::read(file).expect("it can be read");
    bytes.windows(SENTINEL.len()).filter(|window| *window == SENTINEL.as_bytes()).count()
}

/// A task in each state that has something to hide. Returns one that ended well, one that failed, one that asks.
fn fill(site: &Site, address: SocketAddr) -> [String; 3] {
    let label = |what: &str| json!({ "label": format!("{SENTINEL} {what}"), "long": SENTINEL.repeat(5_000) });
    let mut client = Modern::new(address);
    let mut ask = |what: &str| {
        let id = client.create("ask", label(what)).expect("a handle");
        let asks = client.until(&id, "input_required");
        assert!(asks["inputRequests"].to_string().contains(SENTINEL), "{asks}");
        let key = asks["inputRequests"].as_object().expect("questions").keys().next().expect("one").clone();
        (id, key)
    };
    let ((ended, key), (asks, _)) = (ask("question"), ask("open question"));
    let answer = json!({ key: { "action": "accept", "content": { "word": format!("{SENTINEL} answer") } } });
    client.call("tasks/update", json!({ "taskId": ended, "inputResponses": answer })).expect("taken");
    let done = client.until(&ended, "completed");
    assert!(done["result"].to_string().contains(&format!("{SENTINEL} answer")), "{done}");
    let failed = client.create("refuse", label("error text")).expect("a handle");
    let said = client.until(&failed, "failed");
    assert!(said["error"].to_string().contains(SENTINEL), "{said}");
    let told = client.create("tell", label("status message")).expect("a handle");
    wait::until("a status message", || {
        client.get(&told)["statusMessage"]
            .to_string()
            .contains(&format!("{SENTINEL} status message"))
            .then_some(())
    });
    // The sentinel is also in the arguments of what never ends by itself.
    assert!(site.path("begun").exists());
    [ended, failed, asks]
}

fn nothing_is_readable_and_keys_are_rotated(site: &Site) {
    let (gateway, address) = site.serve(&[OLD]);
    let [ended, failed, asks] = fill(site, address);
    assert_eq!(site.readable(), 0, "while it runs");
    gateway.kill();
    assert_eq!(site.readable(), 0, "after a crash");

    // Whoever has not the key is told which it is; nothing is served.
    let none = site.refused(&[]);
    assert!(none.contains("is encrypted with the key ") && none.contains("no key"), "{none}");
    let wrong = site.refused(&[NEW]);
    assert!(wrong.contains("is encrypted with the key "), "{wrong}");

    let (gateway, address) = site.serve(&[NEW, OLD]);
    let mut client = Modern::new(address);
    assert!(client.get(&ended)["result"].to_string().contains(&format!("{SENTINEL} answer")));
    assert!(client.get(&failed)["error"].to_string().contains(SENTINEL));
    // Its process is gone, and so is who would have heard the answer.
    client.until(&asks, "failed");
    drop(client);
    gateway.terminate();

    let resealed = site.taskgate(&["store", "reseal"], &[NEW, OLD]);
    let said = String::from_utf8_lossy(&resealed.stdout).into_owned();
    assert!(resealed.status.success() && said.contains("is not needed any more"), "{said}");
    assert!(site.refused(&[OLD]).contains("is encrypted with the key "));
    let checked = site.taskgate(&["store", "check"], &[NEW]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let listed = site.taskgate(&["tasks", "list", "--output", "json"], &[NEW]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains(SENTINEL), "an operator has the key");
    let exported = site.taskgate(&["store", "export"], &[NEW]);
    assert!(exported.status.success() && !String::from_utf8_lossy(&exported.stdout).contains(SENTINEL));
    let decrypted = site.taskgate(&["store", "export", "--decrypt"], &[NEW]);
    assert!(String::from_utf8_lossy(&decrypted.stdout).contains(SENTINEL));
    let (gateway, address) = site.serve(&[NEW]);
    assert!(Modern::new(address).get(&ended)["result"].to_string().contains(&format!("{SENTINEL} answer")));
    gateway.terminate();
    assert_eq!(site.readable(), 0, "at the end");
}

#[test]
fn an_encrypted_file_shows_nothing() {
    nothing_is_readable_and_keys_are_rotated(&Site::sqlite());
}

#[test]
fn an_encrypted_database_shows_nothing() {
    nothing_is_readable_and_keys_are_rotated(&Site::postgres());
}

/// Without a key all of it can be read, so what is looked for above can be found. With one, what was there goes on, and is
/// encrypted when that is asked for.
#[test]
fn a_file_without_a_key_shows_everything_until_it_is_encrypted() {
    let site = Site::sqlite();
    let (gateway, address) = site.serve(&[]);
    let [ended, ..] = fill(&site, address);
    gateway.terminate();
    assert!(site.readable() > 1000);
    let (gateway, address) = site.serve(&[OLD]);
    assert!(Modern::new(address).get(&ended)["result"].to_string().contains(&format!("{SENTINEL} answer")));
    gateway.terminate();
    let resealed = site.taskgate(&["store", "reseal"], &[OLD]);
    assert!(resealed.status.success(), "{}", String::from_utf8_lossy(&resealed.stderr));
    assert_eq!(site.readable(), 0);
}
