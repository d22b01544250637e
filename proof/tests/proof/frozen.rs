//! A gateway that stands still: SIGSTOP and SIGCONT of the real `taskgate serve`.

use std::thread;

use taskgate_proof::dice::Dice;
use taskgate_proof::program::signal;
use taskgate_proof::wait;

use crate::load::Load;
use crate::site::{LEASE, Site};

/// Issue 4, Proof: the one node of a file stands still for longer than its lease, under load, and goes on. There is nobody
/// who could have taken anything over, so nothing is lost, not even live work that is under way.
#[test]
fn a_single_node_goes_on_where_it_stood_still() {
    let site = Site::sqlite();
    let (gateway, address) = site.serve();
    let load = Load::on(&site);
    let mut dice = Dice::new(7);
    thread::scope(|scope| {
        for client in 0..4 {
            let (load, ledger, dice) = (&load, &site.ledger, Dice::new(dice.roll(u64::MAX)));
            scope.spawn(move || load.run(ledger, address, &format!("client {client}"), dice));
        }
        for _ in 0..3 {
            site.ledger.wait_for(site.ledger.len() + 100, wait::DEADLINE);
            signal(gateway.pid(), "STOP");
            // Standing still is all that is waited for here: there is no sign by which to know that a lease is over.
            thread::sleep(LEASE + LEASE / 10);
            signal(gateway.pid(), "CONT");
        }
        site.ledger.wait_for(site.ledger.len() + 100, wait::DEADLINE);
        load.stop();
    });
    site.look();
    let closed = site.close(gateway, address);
    let failed = closed.ends().into_iter().filter(|end| *end == 4).count();
    assert_eq!(failed, 0, "work was given up although its process lived");
    println!("{}", closed.summary());
}
