//! `taskgate store check`: can everything in the store be so?

use taskgate_gateway::{Findings, Kept, SealedStore, SqliteStore, Store, is_encrypted};

use super::Found;
use crate::exit_code::{ExitCode, Failure};
use crate::say::say;
use crate::store as places;
use crate::unlock;

/// How many tasks are looked at together.
const BATCH: usize = 500;

/// Says what is wrong, a line each, and fails if anything is.
pub async fn run(found: &Found) -> Result<(), Failure> {
    let place = &found.place;
    let mut findings = match super::file_of(place) {
        Some(options) => SqliteStore::check(&options).map_err(places::unavailable)?,
        None => look(&*super::open_raw(place).await?).await?,
    };
    let mut note = "";
    if findings.wrong.is_empty() {
        let raw = super::open_raw(place).await?;
        if !found.keys.is_empty() {
            let keys = unlock::keys(&found.keys).await?;
            let opened = SealedStore::reader(raw, keys).await.map_err(places::unavailable)?;
            findings.wrong = opened.check().await.map_err(places::unavailable)?;
        } else if is_encrypted(&*raw).await.map_err(places::unavailable)? {
            note = "; what is encrypted was not opened, as no key was given";
        }
    }
    let shown = places::shown(place);
    if findings.wrong.is_empty() {
        return say(format_args!("{shown}: {} tasks, all is well{note}\n", findings.tasks));
    }
    say(findings.wrong.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    let count = findings.wrong.len();
    Err(Failure::new(
        ExitCode::Unsound,
        format!("{shown}: {count} things are wrong; keep a copy of it before anything else is done"),
    ))
}

/// A database looks after its own pages and checks: what is left is whether the tasks fit together.
async fn look(store: &dyn Store) -> Result<Findings, Failure> {
    let (mut findings, mut after) = (Findings::default(), None);
    loop {
        let page = store.dump(after, BATCH).await.map_err(places::unavailable)?;
        let mut last = None;
        for kept in &page {
            let Kept::Task(kept) = kept else { continue };
            last = Some(kept.task.id.locator());
            findings.tasks += 1;
            let flaws = kept.flaws();
            findings
                .wrong
                .extend(flaws.iter().map(|flaw| format!("task {:016x}: {flaw}", kept.task.id.locator())));
        }
        if last.is_none() {
            return Ok(findings);
        }
        after = last;
    }
}
