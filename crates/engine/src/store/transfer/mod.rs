//! Everything of a store as lines of JSON, and back: for backups, and to move from one kind of store to another.

mod line;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::io::{BufRead, Write};

use taskgate_task::TaskId;

use super::{DUMP_SIZE, Kept, KeptSecret, Key, Store, StoreError, sealed};

use read::Reader;
use write::Writer;

/// The version of the format, which stands in the first line.
const FORMAT: u32 = 1;

/// How many tasks are asked for, or kept in one commit, at a time.
const BATCH: usize = 500;

/// What was carried over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carried {
    /// How many tasks.
    pub tasks: u64,
    /// How many secrets of the store.
    pub secrets: u64,
}

/// Why not everything was carried over.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The lines cannot be read.
    #[error("cannot read: {0}")]
    Read(std::io::Error),
    /// The lines cannot be written.
    #[error("cannot write: {0}")]
    Write(std::io::Error),
    /// The first line is another one than an export begins with.
    #[error("this is no export of a store: its first line is not {{\"taskgate_export\":{FORMAT}}}")]
    NotAnExport,
    /// The export is of a version that is not known here.
    #[error(
        "the export has format {0}, and this taskgate knows format {FORMAT} only; import it with a newer one"
    )]
    Version(u32),
    /// A line is longer than was allowed.
    #[error("line {line} is longer than {longest} bytes; if the file is to be trusted, allow longer lines")]
    TooLong {
        /// Which line.
        line: u64,
        /// What was allowed.
        longest: usize,
    },
    /// A line is not what belongs there.
    #[error("line {line} {what}")]
    Malformed {
        /// Which line.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// There is no last line.
    #[error("the export ends after line {0} without its last line: it was cut off")]
    CutOff(u64),
    /// The store to import into has tasks.
    #[error("the store has tasks already; import into an empty one")]
    NotEmpty,
    /// The store refused or failed.
    #[error("lines {first} to {last}: {error}")]
    Store {
        /// The first line of those that were to be kept together.
        first: u64,
        /// The last one.
        last: u64,
        /// What the store says.
        error: StoreError,
    },
    /// The store cannot be read.
    #[error("{0}")]
    Dump(#[from] StoreError),
}

/// Writes everything that `store` keeps to `out`, never holding more of it than one answer of [`Store::dump`].
///
/// Of a store that is in use, every task is written as it was at some moment, and not all as at the same one.
///
/// # Errors
///
/// [`TransferError::Dump`] if the store cannot be read, [`TransferError::Write`] if `out` cannot be written.
pub async fn export(store: &dyn Store, out: impl Write) -> Result<Carried, TransferError> {
    let mut writer = Writer::begin(out)?;
    let mut after = None;
    loop {
        let page = store.dump(after, BATCH).await?;
        for kept in &page {
            writer.add(kept)?;
        }
        match last(&page) {
            Some(id) => after = Some(id.locator()),
            None => return writer.finish(),
        }
    }
}

/// Keeps everything that an export holds in `store`, which must be without tasks. No line may be longer than
/// `longest` bytes; more than some of them is never held.
///
/// # Errors
///
/// Whatever stops it, what was kept before stays: the store then holds a part of the export.
pub async fn import(
    store: &dyn Store,
    input: impl BufRead,
    longest: usize,
) -> Result<Carried, TransferError> {
    Import::begin(input, longest)?.into(store).await
}

/// An export of which no more than its beginning has been read, for whoever has to know first what is in it.
pub struct Import<R> {
    reader: Reader<R>,
    /// The store's secrets, and the first task.
    read: Vec<Kept>,
    has_ended: bool,
}

impl<R: BufRead> Import<R> {
    /// Reads the beginning. No line may be longer than `longest` bytes.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn begin(input: R, longest: usize) -> Result<Self, TransferError> {
        let mut import =
            Import { reader: Reader::begin(input, longest)?, read: Vec::new(), has_ended: false };
        while !import.has_ended && last(&import.read).is_none() {
            match import.reader.next()? {
                Some(kept) => import.read.push(kept),
                None => import.has_ended = true,
            }
        }
        Ok(import)
    }

    /// Whether its values are encrypted: it is then kept as it is, in the store itself and not in a
    /// [`SealedStore`](super::SealedStore) over it.
    pub fn is_encrypted(&self) -> bool {
        self.secrets().any(|secret| sealed::is_of_a_key(&secret.name))
    }

    /// Whether these keys open it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Keys`] if not; it names the key that is missing.
    pub fn check_keys(&self, keys: &[Key]) -> Result<(), StoreError> {
        let given: Vec<_> = keys.iter().map(Key::id).collect();
        sealed::check_given(self.secrets(), &given)
    }

    fn secrets(&self) -> impl Iterator<Item = &KeptSecret> {
        self.read.iter().filter_map(|kept| if let Kept::Secret(secret) = kept { Some(secret) } else { None })
    }

    /// Keeps all of it, as [`import`] does.
    ///
    /// # Errors
    ///
    /// As [`import`].
    pub async fn into(self, store: &dyn Store) -> Result<Carried, TransferError> {
        if last(&store.dump(None, 1).await?).is_some() {
            return Err(TransferError::NotEmpty);
        }
        let Import { mut reader, read: mut batch, mut has_ended } = self;
        // The first line says that it is an export.
        let (mut weight, mut first) = (weight(&batch), 2);
        loop {
            if !has_ended {
                match reader.next()? {
                    Some(kept) => {
                        weight += self::weight(std::slice::from_ref(&kept));
                        batch.push(kept);
                    }
                    None => has_ended = true,
                }
            }
            if has_ended || batch.len() >= BATCH || weight >= DUMP_SIZE {
                let loaded = store.load(std::mem::take(&mut batch)).await;
                loaded.map_err(|error| TransferError::Store { first, last: reader.line(), error })?;
                (weight, first) = (0, reader.line() + 1);
            }
            if has_ended {
                return Ok(reader.carried());
            }
        }
    }
}

fn weight(all: &[Kept]) -> usize {
    all.iter().map(|kept| if let Kept::Task(kept) = kept { kept.weight() } else { 0 }).sum()
}

fn last(page: &[Kept]) -> Option<TaskId> {
    page.iter().rev().find_map(|kept| match kept {
        Kept::Task(kept) => Some(kept.task.id),
        Kept::Secret(_) => None,
    })
}
