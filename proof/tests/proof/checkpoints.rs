//! kill -9 of a program whose work makes checkpoints: `examples/steps`. The effects of its steps are held against its records.

use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use taskgate_proof::dice::Dice;
use taskgate_proof::effects;
use taskgate_proof::program::{Program, nothing_left_of};
use taskgate_proof::witness::Witness;
use taskgate_proof::{programs, wait};

use crate::site::{Closed, Site};

fn serve(site: &Site) -> (Program, SocketAddr) {
    let mut command = Command::new(programs::plain_example("steps"));
    command.arg("127.0.0.1:0").arg(site.store.place()).arg(site.path());
    Program::serve(command)
}

/// The steps that were done, in their order.
fn steps(site: &Site) -> Vec<String> {
    effects::read(site.path()).into_iter().map(|effect| effect.step).collect()
}

/// Kills it, and has another one go on to the end.
fn kill_and_go_on(site: Site, gateway: Program, release: impl FnOnce()) -> (Vec<String>, Closed) {
    gateway.kill();
    nothing_left_of(site.mark());
    release();
    site.look();
    let (gateway, address) = serve(&site);
    (1..=4).for_each(|step| site.open(&format!("step-{step}")));
    let path = site.path().to_owned();
    site.settle(address, wait::DEADLINE);
    let steps = effects::read(&path).into_iter().map(|effect| effect.step).collect();
    (steps, site.close(gateway, address))
}

fn create(site: &Site, address: SocketAddr, label: &str, to: u64, gated: bool) {
    let mut client = Witness::modern(&site.ledger, "client", address);
    let arguments = json!({ "label": label, "to": to, "gated": gated });
    client.create("steps", &arguments).expect("an answer").expect("a handle");
}

/// Issue 4, Proof; CASE 4: a step whose checkpoint was not committed is done again, and only that one.
#[test]
fn before_a_checkpoint_is_committed() {
    let site = Site::sqlite();
    let (gateway, address) = serve(&site);
    create(&site, address, "gated", 4, true);
    site.open("step-1");
    wait::until("the first checkpoint", || (site.store.read().tasks[0].version == 2).then_some(()));
    let held = site.store.hold();
    site.open("step-2");
    wait::until("the second step", || (steps(&site).len() == 2).then_some(()));
    let (steps, closed) = kill_and_go_on(site, gateway, || drop(held));
    assert_eq!(steps, ["1", "2", "2", "3", "4"]);
    assert_eq!(closed.ends(), [3]);
}

/// Issue 4, Proof; CASE 4: a step whose checkpoint was committed is not done again.
#[test]
fn after_a_checkpoint_is_committed() {
    let site = Site::sqlite();
    let (gateway, address) = serve(&site);
    create(&site, address, "gated", 4, true);
    site.open("step-1");
    let end = Instant::now() + wait::DEADLINE;
    while site.store.read().tasks[0].version < 2 {
        assert!(Instant::now() < end, "there was no checkpoint");
    }
    let (steps, closed) = kill_and_go_on(site, gateway, || {});
    assert_eq!(steps, ["1", "2", "3", "4"]);
    assert_eq!(closed.ends(), [3]);
}

/// Issue 4, Proof; CASE 4: killed again and again at any moment, work with checkpoints gets to its end, and of its steps only
/// those in flight are done twice.
#[test]
fn work_with_checkpoints_gets_to_its_end() {
    let site = Site::sqlite();
    let mut dice = Dice::new(11);
    for round in 0..12 {
        let (gateway, address) = serve(&site);
        create(&site, address, &format!("task {round}"), 60, false);
        // Until some steps more are done, and then some time, so that any moment between two steps is hit.
        let enough = steps(&site).len() + 1 + dice.roll(20) as usize;
        wait::until("some steps", || (steps(&site).len() >= enough).then_some(()));
        thread::sleep(Duration::from_micros(dice.roll(5_000)));
        gateway.kill();
        nothing_left_of(site.mark());
        site.look();
    }
    let (gateway, address) = serve(&site);
    let closed = site.close(gateway, address);
    assert_eq!(closed.ends(), [3; 12]);
    println!("{} steps of {}; {}", closed.evidence.effects.len(), 12 * 60, closed.summary());
}
