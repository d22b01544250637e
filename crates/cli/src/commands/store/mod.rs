//! `taskgate store`: what an administrator does with a store that no taskgate serves. One verb, one file.

mod check;
mod export;
mod import;
mod vacuum;

use std::path::Path;
use std::sync::Arc;

use taskgate_gateway::transfer::Carried;
use taskgate_gateway::{Config, SqliteOptions, Store as TaskStore, StorePlace};

use crate::args::{Place, Store};
use crate::exit_code::{ExitCode, Failure};
use crate::store;

/// Does it. These are no servers: a signal ends them where they are.
pub fn run(verb: &Store) -> Result<(), Failure> {
    let cannot = |error| Failure::new(ExitCode::Failure, format!("cannot start: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    runtime.block_on(async {
        match verb {
            Store::Check(place) => check::run(&find(place)?).await,
            Store::Vacuum(place) => vacuum::run(&find(place)?),
            Store::Export(export) => export::run(&find(&export.place)?, &export.file).await,
            Store::Import(import) => import::run(&find(&import.place)?, &import.file, import.max_line).await,
        }
    })
}

/// The store that is meant.
pub(super) fn find(place: &Place) -> Result<StorePlace, Failure> {
    let configured = match (&place.store, &place.config) {
        (None, Some(file)) => {
            let config = Config::load(file).map_err(|errors| {
                Failure::new(ExitCode::Invalid, format!("the configuration is not valid\n\n{errors}"))
            })?;
            config.store
        }
        (given, _) => given.clone(),
    };
    match configured {
        Some(StorePlace::Memory) => Err(Failure::new(
            ExitCode::Invalid,
            "a store in memory is gone with its process; name another one",
        )),
        Some(place) => Ok(place),
        None => store::serve_place(),
    }
}

/// Opens a store that must be there: one that is made by looking at it has nothing to be seen.
pub(super) async fn open(place: &StorePlace) -> Result<Arc<dyn TaskStore>, Failure> {
    if let StorePlace::Sqlite(path) = place
        && !path.exists()
    {
        return Err(Failure::new(
            ExitCode::StoreUnavailable,
            format!("{}: there is no store", path.display()),
        ));
    }
    store::open(place).await
}

/// The options of a store in a file, if it is one.
fn file_of(place: &StorePlace) -> Option<SqliteOptions> {
    match place {
        StorePlace::Sqlite(path) => Some(SqliteOptions::new(path)),
        StorePlace::Postgres(_) | StorePlace::Memory => None,
    }
}

/// Whether stdin or stdout is meant.
fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}

/// What was carried over, for people.
fn told(carried: Carried) -> String {
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    let Carried { tasks, secrets } = carried;
    format!("{tasks} task{} and {secrets} secret{}", plural(tasks), plural(secrets))
}
