//! What a line can hold, and what becomes of lines when the disk is full or the file is moved away.

use std::path::Path;
use std::sync::atomic::Ordering;

use super::line::{LONGEST, Line, short};
use super::*;

fn open(path: &Path, on_failure: OnAuditFailure) -> Audit {
    Audit::open(&AuditSettings { to: AuditPlace::File(path.to_owned()), on_failure }).expect("opened")
}

fn line(tool: &str) -> Line<'_> {
    Line { tool: Some(tool), ..Line::now("call") }
}

fn tools(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("read");
    let tool = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["tool"].clone();
    text.lines().map(|line| tool(line).as_str().expect("a tool").to_owned()).collect()
}

#[test]
fn what_others_say_is_one_bounded_line() {
    let hostile =
        format!("a\n{{\"event\":\"create\"}}\u{9b}31m\u{2028}\u{202e}\0\"\\{}", "x".repeat(1 << 20));
    let text = Line { client: Some(&hostile), method: Some(&hostile), ..Line::now("call") }.text(None);
    assert_eq!(text.matches('\n').count(), 1, "{text}");
    assert!(text.len() < 10 * LONGEST && !text.contains(['\u{9b}', '\u{2028}', '\u{202e}']), "{text}");
    let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(
        read["client"].as_str().is_some_and(|client| client.starts_with("a\n{") && client.ends_with('…'))
    );
    assert_eq!((short("plain"), short("").len()), ("plain".into(), 0));
}

#[tokio::test]
async fn a_file_is_its_owners_and_is_gone_on_with() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("audit.jsonl");
    for _ in 0..2 {
        let audit = open(&path, OnAuditFailure::Log);
        audit.put(line("a")).await;
        audit.flush().await;
    }
    assert_eq!(tools(&path), ["a", "a"]);
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_file_that_was_moved_away_is_made_anew_when_asked() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, moved) = (directory.path().join("audit.jsonl"), directory.path().join("audit.1"));
    let audit = open(&path, OnAuditFailure::Log);
    audit.put(line("a")).await;
    audit.flush().await;
    std::fs::rename(&path, &moved).expect("moved");
    audit.put(line("b")).await;
    audit.flush().await;
    audit.0.orders.send(Order::Reopen).await.expect("taken");
    audit.put(line("c")).await;
    audit.flush().await;
    assert_eq!((tools(&moved), tools(&path)), (vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()]));
}

/// `/dev/full` takes nothing, as a disk that is full.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_cannot_be_written_is_lost_and_counted_or_kept() {
    let audit = open(Path::new("/dev/full"), OnAuditFailure::Log);
    audit.put_and_see(line("a")).await;
    audit.put_and_see(line("b")).await;
    assert_eq!((audit.state().lost.get(), audit.state().written.get()), (2, 0));
    assert!(audit.state().is_failing.load(Ordering::Relaxed) && !audit.refuses_work());

    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("audit.jsonl");
    std::os::unix::fs::symlink("/dev/full", &path).expect("linked");
    let audit = open(&path, OnAuditFailure::Refuse);
    audit.put_and_see(line("a")).await;
    assert!(audit.refuses_work());
    std::fs::remove_file(&path).expect("removed");
    audit.0.orders.send(Order::Reopen).await.expect("taken");
    audit.put(line("b")).await;
    audit.flush().await;
    assert!(!audit.refuses_work() && audit.state().lost.get() == 0);
    assert_eq!(tools(&path), ["a", "b"]);
}

/// Whoever shows nothing cannot fill the memory while nothing can be written.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn lines_of_those_turned_away_are_bounded() {
    let audit = open(Path::new("/dev/full"), OnAuditFailure::Refuse);
    audit.put_and_see(line("a")).await;
    for _ in 0..MOST_SOON + 5 {
        audit.put_soon(line("b"));
    }
    assert_eq!(audit.state().lost.get(), 5);
}
