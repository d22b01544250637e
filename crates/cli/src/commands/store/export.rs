//! `taskgate store export`: everything in the store as lines of JSON.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write, stdout};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use taskgate_gateway::transfer::{Carried, TransferError, export};
use taskgate_gateway::{SealedStore, Store, is_encrypted};

use super::Found;
use crate::exit_code::{ExitCode, Failure};
use crate::store::unavailable;
use crate::unlock;

/// Writes the export. A file gets its name when it is complete.
pub async fn run(found: &Found, file: &Path, decrypt: bool) -> Result<(), Failure> {
    let raw = super::open_raw(&found.place).await?;
    let is_encrypted = is_encrypted(&*raw).await.map_err(unavailable)?;
    let store: Arc<dyn Store> = match decrypt && is_encrypted {
        true => {
            let keys = unlock::keys(&found.keys).await?;
            Arc::new(SealedStore::reader(raw, keys).await.map_err(unavailable)?)
        }
        false => raw,
    };
    let carried = if super::is_standard(file) {
        export(&*store, BufWriter::new(stdout().lock())).await.map_err(|error| broken(&"stdout", &error))?
    } else {
        to_file(&*store, file).await?
    };
    let how = if is_encrypted && !decrypt { ", encrypted as they are" } else { "" };
    eprintln!("taskgate: exported {}{how}", super::told(carried));
    Ok(())
}

async fn to_file(store: &dyn Store, file: &Path) -> Result<Carried, Failure> {
    if file.exists() {
        return Err(broken(&file.display(), &"it is there already; choose another name, or remove it"));
    }
    let mut part = OsString::from(file);
    part.push(".part");
    let part = PathBuf::from(part);
    // Whoever reads it has all payloads, and opens what the store has sealed.
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part);
    let out = created.map_err(|error| broken(&part.display(), &error))?;
    let done = write(store, &out).await.and_then(|carried| {
        let named = out.sync_all().and_then(|()| fs::rename(&part, file));
        named.map(|()| carried).map_err(TransferError::Write)
    });
    done.map_err(|error| {
        // A part of an export is of no use.
        let _ = fs::remove_file(&part);
        broken(&file.display(), &error)
    })
}

async fn write(store: &dyn Store, out: &File) -> Result<Carried, TransferError> {
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let carried = export(store, &mut out).await?;
    out.flush().map_err(TransferError::Write)?;
    Ok(carried)
}

fn broken(what: &dyn std::fmt::Display, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(ExitCode::Failure, format!("cannot export to {what}: {error}"))
}
