//! kill -9 of the real `taskgate serve` at moments that dice decide, under a load of everything that clients can do.

use std::thread;
use std::time::{Duration, Instant};

use taskgate_proof::dice::Dice;
use taskgate_proof::program::{Program, nothing_left_of};
use taskgate_proof::wait;

use crate::load::Load;
use crate::site::Site;

/// Rounds on one store, until all is settled and checked.
const A_LIFE: u64 = 25;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// Issue 4, Proof; CASES 1, 3, 4, 8, 13, 20: whatever a gateway is doing when it is killed, no handle is lost, no end
/// is taken back, no work is done more often than its class allows, no answer is asked for again and nothing is forgotten.
///
/// `TASKGATE_CRASH_ROUNDS` asks for more rounds than 200. Each life of a store has a seed, which is printed;
/// `TASKGATE_CRASH_SEED` makes it the first one.
#[test]
fn nothing_acknowledged_is_lost_whenever_a_gateway_on_a_file_is_killed() {
    lives(number("TASKGATE_CRASH_ROUNDS", 200), Site::sqlite);
}

/// The same on Postgres, with fewer rounds: what a database does is shared, and what a node does when it is killed among
/// others is the subject of `nodes.rs`.
#[test]
fn nothing_acknowledged_is_lost_whenever_a_gateway_on_postgres_is_killed() {
    lives(number("TASKGATE_CRASH_ROUNDS", 200) / 4, Site::postgres);
}

fn lives(rounds: u64, site: fn() -> Site) {
    let first = number("TASKGATE_CRASH_SEED", 1);
    for life in 0..rounds.div_ceil(A_LIFE) {
        one_life(site(), first + life, A_LIFE.min(rounds - life * A_LIFE));
    }
}

/// Kills and starts again, then lets everything come to its end and has it checked.
fn one_life(site: Site, seed: u64, rounds: u64) {
    println!("seed {seed}: {rounds} rounds on {}", site.store.place());
    let begun = Instant::now();
    let load = Load::on(&site);
    let mut dice = Dice::new(seed);
    // How long a start takes here, so that kills while starting are spread over all of it.
    let mut start = Duration::from_millis(200);
    let mut in_start = 0;
    for round in 0..rounds {
        if dice.roll(5) == 0 {
            let mut command = site.node("one");
            command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
            let gateway = Program::start(command);
            thread::sleep(Duration::from_micros(dice.roll(start.as_micros() as u64)));
            gateway.kill();
            in_start += 1;
        } else {
            let before = Instant::now();
            let (gateway, address) = site.serve();
            start = before.elapsed();
            thread::scope(|scope| {
                for client in 0..4 {
                    let name = format!("{seed}.{round}.{client}");
                    let (load, ledger, dice) = (&load, &site.ledger, Dice::new(dice.roll(u64::MAX)));
                    scope.spawn(move || load.run(ledger, address, &name, dice));
                }
                // Counted in what clients have learnt, so that a slow machine has its kills in mid-load too; the rest
                // moves the kill away from the moment at which an answer has just arrived.
                let facts = site.ledger.len() + dice.roll(60) as usize;
                site.ledger.wait_for(facts, wait::DEADLINE);
                thread::sleep(Duration::from_micros(dice.roll(5_000)));
                gateway.kill();
            });
        }
        site.look();
    }
    nothing_left_of(site.mark());
    let (gateway, address) = site.serve();
    let closed = site.close(gateway, address);
    println!("seed {seed}: {in_start} kills while starting, {:?}, {}", begun.elapsed(), closed.summary());
    assert!(!closed.evidence.effects.is_empty(), "there was no load");
}
