//! Clients that do everything there is to do, in an order that dice decide, until their server has gone.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use taskgate_proof::dice::Dice;
use taskgate_proof::ledger::Ledger;
use taskgate_proof::witness::{Gone, Witness};

use crate::site::Site;
use crate::store::Store;

/// What the clients of a site know together.
pub struct Load {
    /// Tools that any client can call, and that ask nothing.
    quiet: Vec<&'static str>,
    known: Mutex<Vec<Known>>,
    stop: AtomicBool,
}

#[derive(Clone)]
struct Known {
    task: String,
    asks: bool,
}

const QUIET: [&str; 4] = ["work_live", "work_repeatable", "plain_live", "plain_repeatable"];
const ASKING: [&str; 2] = ["ask_live", "ask_repeatable"];

impl Load {
    /// On the tools that there are on this site.
    pub fn on(site: &Site) -> Load {
        let mut quiet = QUIET.to_vec();
        if matches!(site.store, Store::Sqlite(_)) {
            quiet.push("run_external");
        }
        Load { quiet, known: Mutex::default(), stop: AtomicBool::new(false) }
    }

    /// Ends the load that goes on.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Goes on until the server has gone, or until the load is stopped. `name` is one that no other client has.
    pub fn run(&self, ledger: &Ledger, address: SocketAddr, name: &str, mut dice: Dice) {
        let client = match dice.roll(3) {
            0 => Witness::session(ledger, name, address),
            _ => Ok(Witness::modern(ledger, name, address)),
        };
        let Ok(mut client) = client else { return };
        let mut number = 0;
        while !self.is_stopped() {
            number += 1;
            if self.act(&mut client, &format!("{name}.{number}"), &mut dice) == Err(Gone) {
                return;
            }
        }
    }

    /// Goes on until the load is stopped, through a proxy that takes turns among nodes: each request may reach another one,
    /// and what one node does not answer is no reason to stop.
    pub fn run_on_nodes(&self, ledger: &Ledger, proxy: SocketAddr, name: &str, mut dice: Dice) {
        let mut number = 0;
        while !self.is_stopped() {
            let client = match dice.roll(3) {
                0 => Witness::session(ledger, name, proxy),
                _ => Ok(Witness::modern(ledger, name, proxy)),
            };
            let Ok(client) = client else { continue };
            // Answers are told apart by who gave them, so a new client has another name.
            number += 1;
            let name = format!("{name}.{number}");
            let mut client = client.restless().named(&name);
            let mut calls = 0;
            while !self.is_stopped() {
                calls += 1;
                if self.act(&mut client, &format!("{name}.{calls}"), &mut dice) == Err(Gone) {
                    break;
                }
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// One request, or two.
    pub fn act(&self, client: &mut Witness<'_>, label: &str, dice: &mut Dice) -> Result<(), Gone> {
        let is_session = client.is_session();
        let what = dice.roll(100);
        let known = self.any(dice);
        match (what, known) {
            (0..40, _) | (_, None) => {
                let asks = !is_session && dice.roll(3) == 0;
                let tool = if asks { dice.pick(&ASKING) } else { dice.pick(&self.quiet) };
                let arguments = json!({ "label": label, "millis": dice.pick(&[0, 0, 5, 20, 150]) });
                if let Some(task) = client.create(tool, &arguments)? {
                    self.known.lock().expect("nobody panics with it").push(Known { task, asks });
                }
            }
            (40..50, Some(known)) => {
                client.cancel(&known.task)?;
            }
            (50..60, Some(known)) if is_session && !known.asks => client.result(&known.task)?,
            (_, Some(known)) => {
                if let Some(sight) = client.get(&known.task)?
                    && let Some(key) = sight.open.first()
                    && !is_session
                {
                    client.answer(&known.task, key)?;
                }
            }
        }
        Ok(())
    }

    /// One of the newer tasks, for most of the older ones have ended.
    fn any(&self, dice: &mut Dice) -> Option<Known> {
        let known = self.known.lock().expect("nobody panics with it");
        let newer = known.len().min(40) as u64;
        (newer > 0).then(|| known[known.len() - 1 - dice.roll(newer) as usize].clone())
    }
}
