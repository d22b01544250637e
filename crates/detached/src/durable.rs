//! Files that are there as a whole or not at all, whatever ends in between: a process or the machine.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::DetachedError;

/// Writes a record. When it returns, the record is on disk under its name.
pub(crate) fn write(dir: &Path, name: &str, record: &impl Serialize) -> Result<(), DetachedError> {
    let path = dir.join(name);
    let text = serde_json::to_vec(record)
        .map_err(|error| DetachedError::Damaged { path: path.clone(), why: error.to_string() })?;
    let draft = dir.join(format!(".{name}.new"));
    write_bytes(&draft, &text)?;
    fs::rename(&draft, &path).map_err(DetachedError::file("write", &path))?;
    sync(dir)
}

/// Writes a file of which nobody minds a half, as nobody looks at it before something else is there.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), DetachedError> {
    let written = create(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(DetachedError::file("write", path))
}

/// A new, empty file that only its owner can read.
pub(crate) fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Makes what was created, renamed or removed in a directory last.
pub(crate) fn sync(dir: &Path) -> Result<(), DetachedError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(DetachedError::file("sync", dir))
}

/// Reads a record; `None` if it is not there.
pub(crate) fn read<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Option<T>, DetachedError> {
    let path = dir.join(name);
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| DetachedError::Damaged { path, why: error.to_string() }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(DetachedError::file("read", &path)(error)),
    }
}
