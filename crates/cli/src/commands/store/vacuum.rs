//! `taskgate store vacuum`: give the room of deleted tasks back.

use taskgate_gateway::{SqliteStore, StorePlace, Vacuumed};

use crate::exit_code::{ExitCode, Failure};
use crate::say::say;
use crate::store;

/// Makes the file as short as it can be, and says how much that was.
pub fn run(place: &StorePlace) -> Result<(), Failure> {
    let Some(options) = super::file_of(place) else {
        let why = "a Postgres database gives its room back by itself (autovacuum); there is nothing to do";
        return Err(Failure::new(ExitCode::Invalid, why));
    };
    let Vacuumed { before, after } = SqliteStore::vacuum(&options).map_err(store::unavailable)?;
    let freed = before.saturating_sub(after);
    let shown = store::shown(place);
    say(format_args!("{shown}: {before} bytes before, {after} now, {freed} given back\n"))
}
