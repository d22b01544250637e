//! CASE 29: kill -9 of a program that keeps a ledger of its calls, at every step of one: `examples/ledger`. Started again it
//! finishes the call, and the tool is called once.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use taskgate_proof::dice::Dice;
use taskgate_proof::program::{Program, nothing_left_of, signal};
use taskgate_proof::{programs, wait};

use crate::place::Place;

/// A gateway, and the call that is to be made.
struct Scene {
    place: Place,
    gateway: Program,
    address: SocketAddr,
    tool: &'static str,
    arguments: Value,
}

/// One life of the program.
struct Life {
    program: Program,
    said: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    /// With a gateway that makes tasks of calls at once, or as late as this.
    fn new(tool: &'static str, late: Option<&str>) -> Scene {
        let place = Place::new();
        if let Some(late) = late {
            let config = std::fs::read_to_string(place.path().join("taskgate.toml")).expect("it is there");
            let auto = format!("tasks = \"auto\"\ninline_for = {late:?}");
            place.write("taskgate.toml", &config.replace("tasks = \"always\"", &auto));
        }
        let (gateway, address) = place.serve();
        let arguments = json!({ "label": "it", "token": "sesame" });
        Scene { place, gateway, address, tool, arguments }
    }

    fn live(&self) -> Life {
        let mut command = Command::new(programs::plain_example("ledger"));
        command.arg(format!("http://{}/mcp", self.address)).arg(self.place.path().join("calls.db"));
        command.arg(self.tool).arg(self.arguments.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = Program::start(command);
        let lines = BufReader::new(program.child().stdout.take().expect("a pipe")).lines();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = said.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                heard.lock().expect("nobody panics with it").push(line);
            }
        });
        Life { program, said }
    }

    fn begun(&self) -> usize {
        self.place.begun("it")
    }

    /// What became of the call in the ledger, by the words of its states.
    fn noted(&self) -> Vec<String> {
        let file = self.place.path().join("calls.db");
        let db = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let Ok(db) = db else { return Vec::new() };
        let Ok(mut states) = db.prepare("SELECT state FROM call ORDER BY id") else { return Vec::new() };
        let states = states.query_map([], |row| row.get(0)).and_then(Iterator::collect);
        states.unwrap_or_default()
    }

    /// The program gets it done, and nothing was done twice.
    fn finish(self) {
        self.place.write("open", "");
        let mut life = self.live();
        life.answer();
        let result = life.result();
        assert!(result.contains("it is done") || result.contains("it got"), "{result}");
        assert_eq!(self.begun(), 1);
        wait::until("the end in the ledger", || (self.noted() == ["ended"]).then_some(()));
        // CASE 37.
        for name in ["calls.db", "calls.db-wal"] {
            let bytes = std::fs::read(self.place.path().join(name)).unwrap_or_default();
            assert!(!bytes.windows(6).any(|six| six == b"sesame"), "{name}");
        }
        drop(life);
        self.gateway.terminate();
        nothing_left_of(self.place.mark());
    }
}

impl Life {
    fn said(&self) -> Vec<String> {
        self.said.lock().expect("nobody panics with it").clone()
    }

    fn until(&self, word: &str) {
        wait::until(word, || self.said().iter().any(|said| said == word).then_some(()));
    }

    /// Writes what a question will be answered with, should there be one.
    fn answer(&mut self) {
        let stdin = self.program.child().stdin.as_mut().expect("a pipe");
        stdin.write_all(b"yes\n").expect("it reads");
    }

    fn result(&self) -> String {
        let result = |said: Vec<String>| said.into_iter().find(|said| said.starts_with("result: "));
        wait::until("the result", || result(self.said()))
    }

    fn kill(self) {
        self.program.kill();
    }
}

/// The handle is there.
#[test]
fn after_the_handle() {
    let scene = Scene::new("hold", None);
    let life = scene.live();
    life.until("accepted");
    wait::until("the work", || (scene.begun() == 1).then_some(()));
    life.kill();
    assert_eq!(scene.noted(), ["accepted"]);
    scene.finish();
}

/// The server has the call, and its answer has not come yet: it is found by its key.
#[test]
fn before_the_answer() {
    let scene = Scene::new("hold", Some("50s"));
    let life = scene.live();
    wait::until("the work", || (scene.begun() == 1).then_some(()));
    life.kill();
    assert_eq!(scene.noted(), ["sent"]);
    scene.finish();
}

/// The call is noted and on its way to a server that reads nothing.
#[test]
fn before_the_call_arrives() {
    let scene = Scene::new("hold", None);
    // As soon as it has connected. Should the call have been faster, that is another step than this, and must do as well.
    let life = scene.live();
    life.until("connected");
    signal(scene.gateway.pid(), "STOP");
    wait::until("the call in the ledger", || (!scene.noted().is_empty()).then_some(()));
    life.kill();
    signal(scene.gateway.pid(), "CONT");
    scene.finish();
}

/// The tool asks, and nobody has answered; then the answer is on its way; then it is there.
#[test]
fn around_a_question() {
    let scene = Scene::new("ask", None);
    let life = scene.live();
    life.until("asked");
    life.kill();
    let mut life = scene.live();
    life.until("asked");
    life.answer();
    life.kill();
    let mut life = scene.live();
    // If the answer was faster than the kill, there is no question any more.
    life.answer();
    wait::until("a word", || {
        let said = life.said();
        said.iter().any(|said| said == "answered" || said == "done").then_some(())
    });
    life.kill();
    if scene.noted() == ["ended"] {
        // It had all been done.
        assert_eq!(scene.begun(), 1);
        return;
    }
    scene.finish();
}

/// The server is killed as well: it goes on with its task, and the program with its call.
#[test]
fn together_with_the_server() {
    let mut scene = Scene::new("hold_again", None);
    // A server is known by where it is.
    let config = std::fs::read_to_string(scene.place.path().join("taskgate.toml")).expect("it is there");
    scene.place.write("taskgate.toml", &config.replace("127.0.0.1:0", &scene.address.to_string()));
    let life = scene.live();
    life.until("accepted");
    scene.gateway.kill();
    nothing_left_of(scene.place.server().to_str().expect("a plain path"));
    life.until("accepted");
    life.kill();
    scene.place.write("open", "");
    (scene.gateway, scene.address) = scene.place.serve();
    let life = scene.live();
    assert!(life.result().contains("it is done"), "{:?}", life.said());
    // Repeated by the gateway, as configured, and not by another call.
    assert!(scene.begun() <= 2, "{}", scene.begun());
    assert_eq!(scene.noted().len(), 1);
    scene.gateway.terminate();
}

/// At any moment. `TASKGATE_CRASH_ROUNDS` asks for more.
#[test]
fn at_any_moment() {
    let rounds = std::env::var("TASKGATE_CRASH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let rounds: u32 = rounds.map_or(4, |rounds: u32| rounds / 10 + 1);
    let seed = std::env::var("TASKGATE_CRASH_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("TASKGATE_CRASH_SEED={seed}");
    let mut dice = Dice::new(seed);
    for _ in 0..rounds {
        let scene = Scene::new("hold", None);
        for _ in 0..3 {
            let life = scene.live();
            std::thread::sleep(Duration::from_millis(dice.roll(400)));
            life.kill();
        }
        scene.finish();
    }
}
