//! `taskgate store import`: an export becomes the content of a store.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;
use std::sync::Arc;

use taskgate_gateway::transfer::{Carried, Import, TransferError};
use taskgate_gateway::{Key, Store, StoreError, StorePlace, format_size, unlock as unlocked};

use super::Found;
use crate::exit_code::{ExitCode, Failure};
use crate::store;
use crate::unlock;

/// Reads the export. If it cannot be kept whole, a file that was made for it goes again; of any other store it is said that it
/// holds a part.
pub async fn run(found: &Found, file: &Path, longest: usize) -> Result<(), Failure> {
    let place = &found.place;
    let made = match place {
        StorePlace::Sqlite(path) if !path.exists() => Some(path),
        _ => None,
    };
    let keys = unlock::keys(&found.keys).await?;
    let opened = store::open_raw(place).await?;
    let carried = match read(opened, keys, file, longest).await {
        Ok(carried) => carried,
        Err(error) => {
            if let Some(path) = made {
                remove(path);
            }
            return Err(told(error, place, made.is_some()));
        }
    };
    eprintln!("taskgate: imported {} into {}", super::told(carried), store::shown(place));
    Ok(())
}

async fn read(
    store: Arc<dyn Store>,
    keys: Vec<Key>,
    file: &Path,
    longest: usize,
) -> Result<Carried, TransferError> {
    if super::is_standard(file) {
        keep(store, keys, Import::begin(stdin().lock(), longest)?).await
    } else {
        let input = File::open(file).map_err(TransferError::Read)?;
        keep(store, keys, Import::begin(BufReader::with_capacity(1 << 20, input), longest)?).await
    }
}

/// What is encrypted is kept as it is, if the keys that were given open it; anything else is encrypted, if there are keys.
async fn keep(
    store: Arc<dyn Store>,
    keys: Vec<Key>,
    import: Import<impl BufRead>,
) -> Result<Carried, TransferError> {
    if !import.is_encrypted() {
        return import.into(&*unlocked(store, keys).await?).await;
    }
    if !keys.is_empty() {
        import.check_keys(&keys)?;
    }
    import.into(&*store).await
}

fn told(error: TransferError, place: &StorePlace, is_removed: bool) -> Failure {
    // Which store it is says nothing, where a key is missing.
    if let TransferError::Dump(error @ StoreError::Keys(_)) = error {
        return store::unavailable(error);
    }
    let state = match &error {
        TransferError::NotEmpty | TransferError::Dump(_) => "nothing was imported",
        _ if is_removed => "nothing was kept",
        _ => "the store may hold a part of the export: empty it before the next attempt",
    };
    let help = match &error {
        TransferError::TooLong { longest, .. } => {
            format!(" (--max-line is {})", format_size(*longest))
        }
        _ => String::new(),
    };
    Failure::new(ExitCode::Failure, format!("{}: {error}{help}; {state}", store::shown(place)))
}

fn remove(path: &Path) {
    for end in ["", "-wal", "-shm", ".lock"] {
        let mut file = path.as_os_str().to_owned();
        file.push(end);
        // What is not there need not go.
        let _ = fs::remove_file(file);
    }
}
