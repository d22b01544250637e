//! Child processes that would outlive the gateway, in front of the real `taskgate serve`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use taskgate_proof::program::{Program, pid_with, processes_with, signal};
use taskgate_proof::{programs, wait};

/// How long an orphan may live: a second to heed the end of its stdin, another one to heed SIGTERM, and the machine's time.
const SOON: Duration = Duration::from_secs(6);

/// A gateway in front of two servers that do not care whether their stdin has ended. The second one, and the child of
/// each, does not heed SIGTERM either.
struct Gateway {
    program: Program,
    folder: tempfile::TempDir,
}

impl Gateway {
    fn start() -> Gateway {
        let folder = tempfile::Builder::new().prefix("taskgate-orphans-").tempdir().expect("a folder");
        let mark = mark(folder.path());
        let forever = "while :; do sleep 1; done";
        let child = format!("sh -c \"trap '' TERM; {forever}\" child {mark}");
        let server = |more: &str| {
            format!("[{:?}, {:?}, {:?}, {mark:?}]", "sh", "-c", format!("{child} & {more}{forever}"))
        };
        let config = format!(
            "listen = \"127.0.0.1:0\"\nsingle_user = true\nstore = \"memory\"\n\
             [[upstream]]\nname = \"deaf\"\ncommand = {}\n\
             [[upstream]]\nname = \"stubborn\"\ncommand = {}\n",
            server(""),
            server("trap '' TERM; "),
        );
        fs::write(folder.path().join("taskgate.toml"), config).expect("the folder can be written");
        let mut command = Command::new(programs::taskgate());
        command.args(["serve", "--config"]).arg(folder.path().join("taskgate.toml"));
        let (program, _) = Program::serve(command);
        let gateway = Gateway { program, folder };
        wait::until("both servers and their children", || (gateway.orphans().len() == 4).then_some(()));
        gateway
    }

    /// The servers and their children. The gateway itself is told by its folder, too, but not by the mark.
    fn orphans(&self) -> Vec<String> {
        processes_with(&mark(self.folder.path()))
    }

    fn reaper(&self) -> String {
        format!("taskgate-reaper {}", self.program.pid())
    }

    /// Kills it and returns what must go by itself.
    fn kill(self) -> Orphans {
        let reaper = self.reaper();
        let Gateway { program, folder } = self;
        program.kill();
        Orphans { reaper, folder }
    }
}

fn mark(folder: &Path) -> String {
    format!("orphan-of-{}", folder.file_name().and_then(|name| name.to_str()).expect("a plain name"))
}

/// What a killed gateway has left.
struct Orphans {
    reaper: String,
    folder: tempfile::TempDir,
}

impl Orphans {
    /// Nothing is left, nor what has seen to that.
    fn are_gone(&self) {
        for what in [&mark(self.folder.path()), &self.reaper] {
            wait::until_within(SOON, &format!("the end of {what}"), || {
                processes_with(what).is_empty().then_some(())
            });
        }
    }
}

/// CASES 4 and 16: whoever ignores the end of its stdin ends after a `kill -9` of the gateway all the same, and so does
/// what it has started, even if it ignores SIGTERM. Another gateway on the same machine does not notice.
#[test]
fn a_kill_leaves_nobody_behind_and_harms_nobody_else() {
    let (first, second) = (Gateway::start(), Gateway::start());
    first.kill().are_gone();
    assert_eq!(second.orphans().len(), 4, "{:#?}", second.orphans());
    assert_eq!(processes_with(&second.reaper()).len(), 1);
    second.kill().are_gone();
}

/// CASE 16: an end in good order leaves nobody either, and none of it waits for the reaper.
#[test]
fn an_end_in_good_order_leaves_no_reaper() {
    let gateway = Gateway::start();
    assert_eq!(processes_with(&gateway.reaper()).len(), 1);
    let reaper = gateway.reaper();
    let Gateway { program, folder } = gateway;
    program.terminate();
    Orphans { reaper, folder }.are_gone();
}

/// CASE 16: the reaper may be killed first. The next one knows whom to end.
#[test]
fn a_killed_reaper_is_replaced() {
    let gateway = Gateway::start();
    let reaper = gateway.reaper();
    let number = || pid_with(&reaper);
    let first = wait::until("a reaper", number);
    signal(first, "KILL");
    wait::until("another reaper", || number().filter(|pid| *pid != first));
    let said = wait::until("a word about it", || {
        let said = gateway.program.said();
        said.contains("reaper").then_some(said)
    });
    assert_eq!(said.matches("the reaper").count(), 1, "{said}");
    gateway.kill().are_gone();
}
