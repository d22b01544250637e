//! `taskgate store`: what an administrator does with a store that no taskgate serves. One verb, one file.

mod check;
mod export;
mod import;
mod reseal;
mod vacuum;

use std::path::Path;
use std::sync::Arc;

use taskgate_gateway::transfer::Carried;
use taskgate_gateway::{Config, Source, SqliteOptions, Store as TaskStore, StorePlace};

use crate::args::{Place, Store};
use crate::exit_code::{ExitCode, Failure};
use crate::store;
use crate::unlock;

/// Does it. These are no servers: a signal ends them where they are.
pub fn run(verb: &Store) -> Result<(), Failure> {
    let cannot = |error| Failure::new(ExitCode::Failure, format!("cannot start: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    runtime.block_on(async {
        match verb {
            Store::Check(place) => check::run(&find(place)?).await,
            Store::Vacuum(place) => vacuum::run(&find(place)?.place),
            Store::Export(export) => export::run(&find(&export.place)?, &export.file, export.decrypt).await,
            Store::Import(import) => import::run(&find(&import.place)?, &import.file, import.max_line).await,
            Store::Reseal(place) => reseal::run(&find(place)?).await,
        }
    })
}

/// The store that is meant.
pub(super) struct Found {
    pub(super) place: StorePlace,
    /// Where the keys are that it is encrypted with.
    pub(super) keys: Vec<Source>,
}

/// Finds it. What the command line says goes before what the configuration says.
pub(super) fn find(given: &Place) -> Result<Found, Failure> {
    let config = match &given.config {
        Some(file) => Some(Config::load(file).map_err(|errors| {
            Failure::new(ExitCode::Invalid, format!("the configuration is not valid\n\n{errors}"))
        })?),
        None => None,
    };
    let (store, keys) = config.map(|config| (config.store, config.encryption)).unwrap_or_default();
    let keys = if given.key_file.is_empty() { keys } else { unlock::key_files(&given.key_file) };
    let place = match given.store.clone().or(store) {
        Some(StorePlace::Memory) => Err(Failure::new(
            ExitCode::Invalid,
            "a store in memory is gone with its process; name another one",
        )),
        Some(place) => Ok(place),
        None => store::serve_place(),
    };
    Ok(Found { place: place?, keys })
}

/// Opens a store that must be there: one that is made by looking at it has nothing to be seen.
pub(super) async fn open(found: &Found) -> Result<Arc<dyn TaskStore>, Failure> {
    unlock::unlocked(open_raw(&found.place).await?, &found.keys).await
}

/// The same as it is kept, encrypted or not.
async fn open_raw(place: &StorePlace) -> Result<Arc<dyn TaskStore>, Failure> {
    if let StorePlace::Sqlite(path) = place
        && !path.exists()
    {
        return Err(Failure::new(
            ExitCode::StoreUnavailable,
            format!("{}: there is no store", path.display()),
        ));
    }
    store::open_raw(place).await
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
