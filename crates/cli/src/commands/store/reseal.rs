//! `taskgate store reseal`: encrypt anew what another key has encrypted, or none.

use taskgate_gateway::transfer::Carried;
use taskgate_gateway::{Resealed, SealedStore, SqliteStore};

use super::Found;
use crate::exit_code::{ExitCode, Failure};
use crate::say::say;
use crate::store::{shown, unavailable};
use crate::unlock;

/// Encrypts everything with the first key, and says which others nobody needs any more.
pub async fn run(found: &Found) -> Result<(), Failure> {
    let keys = unlock::keys(&found.keys).await?;
    if keys.is_empty() {
        let why = "there is no key to encrypt with: name a configuration with [encryption], or a --key-file";
        return Err(Failure::new(ExitCode::Invalid, why));
    }
    let sealed = SealedStore::open(super::open_raw(&found.place).await?, keys).await.map_err(unavailable)?;
    let done = sealed.reseal().await.map_err(unavailable)?;
    // The file is needed alone.
    drop(sealed);
    let Resealed { tasks, secrets, had_plain, left, dropped } = done;
    let told = super::told(Carried { tasks, secrets });
    let mut text = format!("{}: encrypted {told} anew\n", shown(&found.place));
    for key in dropped {
        text += &format!("the key {key} is not needed any more\n");
    }
    match super::file_of(&found.place) {
        // What was there before may still lie in its free pages, also from a run that was interrupted before it came to this.
        Some(options) => {
            SqliteStore::vacuum(&options).map_err(unavailable)?;
        }
        None if had_plain => {
            text += "what was not encrypted may still lie in the database's files until they are written anew (VACUUM FULL)\n";
        }
        None => {}
    }
    say(text)?;
    if left.is_empty() {
        return Ok(());
    }
    say(left.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    let why =
        format!("{} tasks cannot be decrypted and were left as they are; the keys stay needed", left.len());
    Err(Failure::new(ExitCode::Unsound, why))
}
