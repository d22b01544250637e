//! `taskgate store import`: an export becomes the content of a store.

use std::fs::{self, File};
use std::io::{BufReader, stdin};
use std::path::Path;

use taskgate_gateway::transfer::{Carried, TransferError, import};
use taskgate_gateway::{Store, StorePlace, format_size};

use crate::exit_code::{ExitCode, Failure};
use crate::store;

/// Reads the export. If it cannot be kept whole, a file that was made for it goes again; of any other store it is said that it
/// holds a part.
pub async fn run(place: &StorePlace, file: &Path, longest: usize) -> Result<(), Failure> {
    let made = match place {
        StorePlace::Sqlite(path) if !path.exists() => Some(path),
        _ => None,
    };
    let opened = store::open(place).await?;
    let carried = match read(&*opened, file, longest).await {
        Ok(carried) => carried,
        Err(error) => {
            drop(opened);
            if let Some(path) = made {
                remove(path);
            }
            return Err(told(&error, place, made.is_some()));
        }
    };
    eprintln!("taskgate: imported {} into {}", super::told(carried), store::shown(place));
    Ok(())
}

async fn read(store: &dyn Store, file: &Path, longest: usize) -> Result<Carried, TransferError> {
    if super::is_standard(file) {
        import(store, stdin().lock(), longest).await
    } else {
        let input = File::open(file).map_err(TransferError::Read)?;
        import(store, BufReader::with_capacity(1 << 20, input), longest).await
    }
}

fn told(error: &TransferError, place: &StorePlace, is_removed: bool) -> Failure {
    let state = match error {
        TransferError::NotEmpty | TransferError::Dump(_) => "nothing was imported",
        _ if is_removed => "nothing was kept",
        _ => "the store may hold a part of the export: empty it before the next attempt",
    };
    let help = match error {
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
