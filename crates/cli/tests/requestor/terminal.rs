//! The command line at a real terminal: forms, bars and Ctrl-C.

use std::io::{Read, Write};
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use pty_process::blocking::{Command, Pty, open};

use crate::asker;
use crate::served::Served;

/// How long something may take to appear.
const PATIENCE: Duration = Duration::from_secs(30);

/// A person at a terminal of 100 columns.
struct Person {
    pty: Arc<Pty>,
    child: Child,
    seen: Arc<(Mutex<String>, Condvar)>,
    reader: std::thread::JoinHandle<()>,
    /// How much of it was looked at.
    read: usize,
}

impl Person {
    fn starts(served: &Served, words: &[&str]) -> Person {
        Person::starts_with(served, words, &[])
    }

    fn starts_with(served: &Served, words: &[&str], variables: &[(&str, &str)]) -> Person {
        let (pty, pts) = open().expect("a terminal");
        pty.resize(pty_process::Size::new(30, 100)).expect("resized");
        let state = served.store().with_file_name("state");
        let command = Command::new(env!("CARGO_BIN_EXE_taskgate")).args(words);
        let command = command.env("XDG_STATE_HOME", state).env("TERM", "xterm").env_remove("NO_COLOR");
        let command = command.envs(variables.iter().copied());
        let child = command.spawn(pts).expect("it runs");
        let (pty, seen) = (Arc::new(pty), Arc::<(Mutex<String>, Condvar)>::default());
        let (from, shown) = (pty.clone(), seen.clone());
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end of the other side is an error here.
            while let Ok(count @ 1..) = (&*from).read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
                shown.0.lock().expect("the screen").push_str(&text);
                shown.1.notify_all();
            }
        });
        Person { pty, child, seen, reader, read: 0 }
    }

    /// Waits until the text is there, after what was waited for before.
    fn sees(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        let mut seen = self.seen.0.lock().expect("the screen");
        loop {
            if let Some(place) = seen[self.read..].find(text) {
                self.read += place + text.len();
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{text:?} does not appear in {:?}", &seen[self.read..]);
            seen = self.seen.1.wait_timeout(seen, left).expect("the screen").0;
        }
    }

    /// What is there, from what was waited for last.
    fn rest(&self) -> String {
        self.seen.0.lock().expect("the screen")[self.read..].to_owned()
    }

    fn types(&mut self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).expect("typed");
    }

    /// The code it ends with, and all that was to be seen.
    fn ends(mut self) -> (i32, String) {
        let status = self.child.wait().expect("it ends");
        self.reader.join().expect("all is read");
        let seen = self.seen.0.lock().expect("the screen").clone();
        (status.code().expect("it ended by itself"), seen)
    }
}

/// The handle that was printed.
fn handle_in(seen: &str) -> String {
    let handle = seen[seen.find("tg1_").expect("a handle")..].chars();
    handle.take_while(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).collect()
}

const ENTER: &str = "\r";
const DOWN: &str = "\u{1b}[B";
const ESCAPE: &str = "\u{1b}";
const CTRL_C: &str = "\u{3}";

#[test]
fn a_form_is_filled_in_and_its_answer_reaches_the_tool() {
    let demo = Served::demo();
    let mut person = Person::starts(&demo, &["call", &demo.url, "book_table", "guests=4"]);
    person.sees("At what time do you want a table for 4?");
    person.sees("Time *");
    person.sees("21:00");
    person.types(DOWN);
    person.sees("19:30");
    person.types(ENTER);
    person.sees("A table for 4 is booked at 19:30.");
    assert_eq!(person.ends().0, 0);
}

#[test]
fn a_form_can_be_declined() {
    let demo = Served::demo();
    let mut person = Person::starts(&demo, &["call", &demo.url, "book_table", "guests=2"]);
    person.sees("Time *");
    person.types(ESCAPE);
    person.sees("Leave the form?");
    person.sees("back to the form");
    person.types(ENTER);
    person.sees("No table was booked.");
    assert_eq!(person.ends().0, 0);
}

#[test]
fn every_kind_of_field_can_be_filled_in_and_secrets_are_not_shown() {
    let demo = Served::demo();
    let words = ["call", "ask", "--", "sh", "-c", asker::SCRIPT];
    let mut person = Person::starts_with(&demo, &words, &[("FORM", &asker::FORM.replace('\n', ""))]);
    person.sees("One of each");
    person.sees("Your name *");
    person.types("A\r");
    person.sees("less than 2");
    person.types("da\r");
    person.sees("Size *");
    person.sees("3");
    person.types(ENTER);
    person.sees("Token *");
    person.types("sesame\r");
    person.sees("Sure");
    assert!(!person.rest().contains("sesame"));
    person.sees("(leave it out)");
    person.types(DOWN);
    person.types(ENTER);
    person.sees("Colour");
    person.sees("Green");
    person.types(ENTER);
    person.sees("Extras");
    person.sees("Basil");
    person.types(DOWN);
    person.types(" ");
    person.types(ENTER);
    person.sees("Note");
    person.types(ENTER);
    person.sees(r#"got {"action":"accept","content":{"name":"Ada","size":3,"token":"sesame","sure":true,"colour":"g","extras":["b"]}}"#);
    let (code, seen) = person.ends();
    assert_eq!(code, 0, "{seen}");
    assert_eq!(seen.matches("sesame").count(), 1, "only the tool tells it: {seen}");
}

#[test]
fn a_url_is_shown_before_anything_is_opened() {
    let demo = Served::demo();
    let words = ["call", "ask", "--", "sh", "-c", asker::SCRIPT];
    let mut person = Person::starts_with(&demo, &words, &[("FORM", asker::URL)]);
    person.sees("Please log in");
    person.sees("https://login.example/start?x=1");
    person.sees("login.example");
    person.sees("open it in the browser");
    person.types(DOWN);
    person.types(DOWN);
    person.types(ENTER);
    person.sees(r#"got {"action":"decline"}"#);
    assert_eq!(person.ends().0, 0);
}

/// What a server says is shown, and does nothing else: it sets no title, moves no cursor and turns no text around.
#[test]
fn nothing_that_a_server_says_steers_the_terminal() {
    const HOSTILE: &str = r#"\u001b]0;owned\u0007\u009b2J\u202eX"#;
    let demo = Served::demo();
    let form = r#"{"message":"Hello HOSTILE\n  which is at bank.example","requestedSchema":{"type":"object","properties":{
        "a":{"type":"string","title":"Name HOSTILE","description":"Help HOSTILE","default":"Given HOSTILE"},
        "b":{"type":"string","title":"Kind HOSTILE","enum":["r"],"enumNames":["Red HOSTILE"]}}}}"#;
    let form = form.replace("HOSTILE", HOSTILE).replace('\n', "");
    let result = r#"{"content":[{"type":"text","text":"one\ttwo HOSTILE"}]}"#.replace("HOSTILE", HOSTILE);
    let words = ["call", "ask", "--", "sh", "-c", asker::SCRIPT];
    let mut person = Person::starts_with(&demo, &words, &[("FORM", &form)]);
    person.sees("Hello");
    person.sees("| ");
    person.sees("Name");
    person.sees("Help");
    person.types(ENTER);
    person.sees("Kind");
    person.sees("Red");
    person.types(ENTER);
    person.sees("got ");
    let (code, asked) = person.ends();
    let mut person = Person::starts_with(&demo, &words, &[("RESULT", &result)]);
    person.sees("one\ttwo");
    let (_, told) = person.ends();
    assert_eq!(code, 0);
    for steers in ["\u{1b}]0;", "\u{7}", "\u{9b}", "\u{202e}"] {
        assert!(!asked.contains(steers) && !told.contains(steers), "{steers:?} in {asked:?} or {told:?}");
    }
}

/// A URL that leads elsewhere than it seems, or to something else than a page, is never opened from here.
#[test]
fn a_url_that_is_not_what_it_seems_is_not_opened() {
    let demo = Served::demo();
    let words = ["call", "ask", "--", "sh", "-c", asker::SCRIPT];
    let url = asker::URL.replace("login.example", "bank.example@evil.example");
    let mut person = Person::starts_with(&demo, &words, &[("FORM", &url)]);
    person.sees("It is not opened from here.");
    person.sees("I go there myself");
    person.types(DOWN);
    person.types(ENTER);
    person.sees(r#"got {"action":"decline"}"#);
    let (code, seen) = person.ends();
    assert!(code == 0 && !seen.contains("open it in the browser"), "{seen}");
}

/// Ctrl-C within a form is about the call: left, its question is still there for whoever comes back.
#[test]
fn ctrl_c_in_a_form_leaves_its_question_open() {
    let served = Served::tasks();
    let mut person = Person::starts(&served, &["call", &served.url, "book_table", "guests=4"]);
    person.sees("Time *");
    person.types(CTRL_C);
    person.sees("Interrupted. What now?");
    person.sees("cancel the call");
    person.types(DOWN);
    person.types(ENTER);
    person.sees("tg1_");
    let (code, seen) = person.ends();
    assert_eq!(code, 18, "{seen}");
    let handle = handle_in(&seen);
    let mut person = Person::starts(&served, &["answer", &handle]);
    person.sees("Time *");
    person.types(ENTER);
    assert_eq!(person.ends().0, 0);
    let result = served.run(&["result", &handle]);
    assert!(result.out.contains("booked at 18:00"), "{result:?}");
}

#[test]
fn a_bar_shows_how_far_the_work_is_and_goes_when_it_is_done() {
    let served = Served::tasks();
    let mut person = Person::starts(&served, &["call", &served.url, "slow_report", "topic=x", "seconds=3"]);
    person.sees("slow_report");
    person.sees("working");
    person.sees("Wrote page");
    person.sees("Report on x");
    assert_eq!(person.ends().0, 0);
}

#[test]
fn ctrl_c_asks_and_cancels() {
    let served = Served::tasks();
    let mut person = Person::starts(&served, &["call", &served.url, "slow_report", "topic=x", "seconds=600"]);
    person.sees("Wrote page 1 of 600");
    person.types(CTRL_C);
    person.sees("Interrupted. What now?");
    person.sees("cancel the call");
    person.types(DOWN);
    person.types(DOWN);
    person.types(ENTER);
    let (code, seen) = person.ends();
    assert_eq!(code, 12, "{seen}");
}

#[test]
fn ctrl_c_twice_leaves_and_prints_the_handle() {
    let served = Served::tasks();
    let mut person = Person::starts(&served, &["call", &served.url, "slow_report", "topic=x", "seconds=600"]);
    person.sees("Wrote page 1 of 600");
    person.types(CTRL_C);
    person.sees("Interrupted. What now?");
    person.sees("cancel the call");
    person.types(CTRL_C);
    person.sees("tg1_");
    let (code, seen) = person.ends();
    assert_eq!(code, 18, "{seen}");
    let handle = handle_in(&seen);
    let state = served.run(&["cancel", &handle]);
    assert_eq!(state.code, 0, "{state:?}");
}

#[test]
fn a_table_is_as_wide_as_the_terminal_and_no_wider() {
    let demo = Served::demo();
    let (code, seen) = Person::starts(&demo, &["tools", &demo.url]).ends();
    assert_eq!(code, 0, "{seen}");
    let widest = seen.lines().map(|line| line.trim_end().chars().count()).max();
    assert!(widest.is_some_and(|widest| (80..=100).contains(&widest)), "{widest:?}: {seen}");
    let words: Vec<&str> = seen.split_whitespace().collect();
    assert!(words.contains(&"far") && words.contains(&"restaurant."), "nothing is cut off: {seen}");
    // Where a program reads it, a row is a line.
    assert_eq!(demo.run(&["tools", &demo.url]).out.lines().count(), 5);
}

#[test]
fn no_colour_is_shown_where_none_is_wanted() {
    let served = Served::tasks();
    let handle = served.detached(&["always_fails"]);
    assert_eq!(served.run(&["result", &handle]).code, 10);
    let coloured = Person::starts(&served, &["get", &handle]).ends().1;
    assert!(coloured.contains("\u{1b}[32mcompleted"), "{coloured:?}");
    // Where there is no terminal, there is none either.
    let plain = served.run(&["get", &handle]).out;
    assert!(plain.contains("completed") && !plain.contains('\u{1b}'), "{plain:?}");
}
