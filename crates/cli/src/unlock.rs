//! With which keys a store is opened.

use std::path::PathBuf;
use std::sync::Arc;

use taskgate_gateway::{Key, Secret, Source, Store, read_keys, unlock};

use crate::exit_code::{ExitCode, Failure};
use crate::store::unavailable;

/// Where keys are that the command line names; they go before those of a configuration.
pub fn key_files(files: &[PathBuf]) -> Vec<Source> {
    files.iter().map(|file| Source::Kept(Secret::File(file.clone()))).collect()
}

/// Reads the keys.
pub async fn keys(sources: &[Source]) -> Result<Vec<Key>, Failure> {
    read_keys(sources)
        .await
        .map_err(|why| Failure::new(ExitCode::Invalid, format!("a key of the store cannot be used: {why}")))
}

/// The store as it is to be used: encrypted, if there are keys.
pub async fn unlocked(store: Arc<dyn Store>, sources: &[Source]) -> Result<Arc<dyn Store>, Failure> {
    unlock(store, keys(sources).await?).await.map_err(unavailable)
}
