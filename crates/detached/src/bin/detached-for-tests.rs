//! `supervise DIR` is a supervisor. `start WORK NAME SPEC` plays a gateway: it makes an attempt with this description,
//! starts it, says `started` and waits to be killed. `prepare` does the same but starts nothing.

use std::io::Write;
use std::path::Path;

use taskgate_detached::{Attempt, Environment, Launcher, supervise};

fn main() {
    let words: Vec<String> = std::env::args().collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["supervise", dir] => supervise(Path::new(dir)).expect("it supervises"),
        [what @ ("start" | "prepare"), work, name, spec] => {
            let spec = serde_json::from_str(spec).expect("a description");
            let attempt = Attempt::create(Path::new(work), name, spec, b"{}").expect("an attempt");
            if what == "start" {
                let launcher = Launcher::this_program(&["supervise"]);
                attempt.start(&launcher, &Environment::default()).expect("a supervisor");
            }
            println!("started");
            std::io::stdout().flush().expect("stdout");
            std::thread::park();
        }
        _ => panic!("detached-for-tests supervise DIR | start WORK NAME SPEC | prepare WORK NAME SPEC"),
    }
}
