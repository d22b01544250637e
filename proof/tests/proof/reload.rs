//! The configuration is replaced under the real binary, by its file and by SIGHUP.

use std::fs;

use serde_json::json;
use taskgate_proof::program::{pid_with, signal};
use taskgate_proof::wait;
use taskgate_proof::witness::Witness;

use crate::site::Site;

/// Issue 5, item 7: a server's command changes in the file while it works. The work ends where it is and its process with
/// it, new work is done by the new process, a file that is not valid changes nothing, and SIGHUP does not end anything.
#[test]
fn a_changed_file_is_read_and_nothing_is_lost() {
    let site = Site::sqlite();
    let (gateway, address) = site.serve();
    let file = site.path().join("one.toml");
    let mut client = Witness::modern(&site.ledger, "client", address);
    let task = client.create("work_live", &json!({ "label": "before", "hold": "open" }));
    let task = task.expect("an answer").expect("a handle");
    wait::until("its work", || site.has_done("before", "done").then_some(()));
    let process = |node: &str| pid_with(&format!("{} {node} session", site.mark()));
    assert!(process("one").is_some() && process("two").is_none());

    let text = fs::read_to_string(&file).expect("the file");
    let other = text.replace(r#""one", "session""#, r#""two", "session""#);
    assert_ne!(other, text);
    fs::write(&file, &other).expect("written");
    wait::until("the new server", || process("two"));
    let after =
        client.create("work_live", &json!({ "label": "after" })).expect("an answer").expect("a handle");
    wait::until("the end of new work", || client.get(&after).ok()??.has_ended().then_some(()));
    let by = |label: &str| {
        let effects = taskgate_proof::effects::read(site.path());
        effects.iter().find(|effect| effect.label == label).map(|effect| effect.node.clone())
    };
    assert_eq!((by("before").as_deref(), by("after").as_deref()), (Some("one"), Some("two")));
    assert!(process("one").is_some() && !client.get(&task).expect("an answer").expect("a task").has_ended());
    site.open("open");
    wait::until("the end of the old work", || client.get(&task).ok()??.has_ended().then_some(()));
    wait::until("the end of the old server", || process("one").is_none().then_some(()));

    fs::write(&file, other.replace("[[upstream]]", "[[upsteram]]")).expect("written");
    signal(gateway.pid(), "HUP");
    wait::until("a word about the file", || gateway.said().contains("not reloaded").then_some(()));
    assert!(gateway.said().contains("upsteram"), "{}", gateway.said());
    fs::write(&file, other.replace("drain_grace = \"1s\"", "drain_grace = \"2s\"")).expect("written");
    signal(gateway.pid(), "HUP");
    let warned = || gateway.said().contains("counts from the next start on").then_some(());
    wait::until("a word about what needs a start", warned);
    assert!(client.get(&after).expect("an answer").is_some());
    site.close(gateway, address);
}
