//! Where tasks are kept when nobody says where, and what to do when somebody else is there already.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use etcetera::BaseStrategy;
use taskgate_gateway::{
    Commands, DatabaseUrl, Launcher, MemoryStore, Source, SqliteOptions, SqliteStore, Store, StoreError,
    StorePlace,
};

use crate::commands::supervise;
use crate::exit_code::{ExitCode, Failure};
use crate::unlock::unlocked;

/// How many wraps of one command can run at the same time. Each has a file of its own.
const MOST_SIBLINGS: usize = 100;

/// How long a wrap waits for its file. A host that starts a server anew often does so before the one before has ended,
/// which takes a second, and the tasks it will ask for lie in that one's file.
const HANDOVER: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The file of `taskgate serve`.
pub fn serve_place() -> Result<StorePlace, Failure> {
    Ok(StorePlace::Sqlite(state_dir()?.join("taskgate.db")))
}

/// The file of `taskgate wrap`: the same one whenever the same name is given or, without a name, the same command.
pub fn wrap_place(name: Option<&str>, command: &[String]) -> Result<StorePlace, Failure> {
    let identity: Vec<&str> = match name {
        Some(name) => vec!["name", name],
        None => std::iter::once("command").chain(command.iter().map(String::as_str)).collect(),
    };
    Ok(StorePlace::Sqlite(state_dir()?.join(format!("wrap-{:016x}.db", fingerprint(&identity)))))
}

/// Opens the store as it is to be used, with these keys.
pub async fn open(place: &StorePlace, keys: &[Source]) -> Result<Arc<dyn Store>, Failure> {
    unlocked(open_raw(place).await?, keys).await
}

/// Opens the store as it is kept, encrypted or not.
pub async fn open_raw(place: &StorePlace) -> Result<Arc<dyn Store>, Failure> {
    try_open(place).await.map_err(unavailable)
}

/// Opens the store or, if another process keeps it, the first sibling of its file that is free. Says which it was.
///
/// A desktop host starts its servers without being asked, and often twice: it could do nothing about a refusal.
pub async fn open_or_sibling(
    place: StorePlace,
    keys: &[Source],
) -> Result<(Arc<dyn Store>, StorePlace), Failure> {
    let until = Instant::now() + HANDOVER;
    let mut opened = try_open(&place).await;
    while opened.as_ref().err().is_some_and(is_locked) && Instant::now() < until {
        tokio::time::sleep(LOOK_AGAIN).await;
        opened = try_open(&place).await;
    }
    let mut candidate = place.clone();
    let mut number = 2;
    loop {
        match (opened, &place) {
            (Ok(store), _) => return Ok((unlocked(store, keys).await?, candidate)),
            (Err(error), StorePlace::Sqlite(path)) if is_locked(&error) && number <= MOST_SIBLINGS => {
                let next = sibling(path, number);
                tracing::warn!("{error}; trying {} instead", next.display());
                candidate = StorePlace::Sqlite(next);
                opened = try_open(&candidate).await;
                number += 1;
            }
            (Err(error), _) => return Err(unavailable(error)),
        }
    }
}

/// Where commands run that outlive this program: beside a file, and like it one program's alone; for a database in the state
/// directory, where the nodes of this machine find what one of them has left. `None` if the store does not outlive the
/// program either.
pub fn commands(place: &StorePlace) -> Option<Commands> {
    let work = match place {
        StorePlace::Sqlite(path) => {
            let mut work = path.clone().into_os_string();
            work.push(".work");
            work.into()
        }
        StorePlace::Postgres(url) => {
            state_dir().ok()?.join(format!("nodes-{:016x}.work", fingerprint(&[&url.to_string()])))
        }
        StorePlace::Memory => return None,
    };
    Some(Commands { work, launcher: Launcher::this_program(&supervise::WORDS) })
}

/// The store's place for a message.
pub fn shown(place: &StorePlace) -> String {
    match place {
        StorePlace::Sqlite(path) => path.display().to_string(),
        StorePlace::Postgres(url) => url.to_string(),
        StorePlace::Memory => "memory".to_owned(),
    }
}

async fn try_open(place: &StorePlace) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match place {
        StorePlace::Sqlite(path) => Arc::new(SqliteStore::open(SqliteOptions::new(path))?),
        StorePlace::Postgres(url) => connect(url).await?,
        StorePlace::Memory => Arc::new(MemoryStore::new()),
    })
}

#[cfg(feature = "postgres")]
async fn connect(url: &DatabaseUrl) -> Result<Arc<dyn Store>, StoreError> {
    let options = taskgate_gateway::PostgresOptions::new(url.as_str());
    Ok(Arc::new(taskgate_gateway::PostgresStore::connect(options).await?))
}

#[cfg(not(feature = "postgres"))]
async fn connect(url: &DatabaseUrl) -> Result<Arc<dyn Store>, StoreError> {
    Err(StoreError::Failed(format!("{url}: this taskgate was built without its feature `postgres`")))
}

/// What to tell the user of a store that cannot be used.
pub fn unavailable(error: StoreError) -> Failure {
    let help = match &error {
        error if is_locked(error) => "; end that process, or choose another file with --store",
        StoreError::Keys(_) => "; the keys are those of [encryption] in the configuration, or of --key-file",
        _ => "",
    };
    Failure::new(ExitCode::StoreUnavailable, format!("{error}{help}"))
}

/// Whether another process has the file. The store says so in words only; a test below holds it to them.
fn is_locked(error: &StoreError) -> bool {
    matches!(error, StoreError::Failed(why) if why.contains("is open in another taskgate"))
}

/// `tasks.db` and 2 make `tasks-2.db`.
fn sibling(path: &Path, number: usize) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Where this program keeps what is nobody else's.
pub fn state_dir() -> Result<PathBuf, Failure> {
    let no_home = |error| {
        Failure::new(ExitCode::StoreUnavailable, format!("{error}; say with --store where to keep tasks"))
    };
    let base = etcetera::choose_base_strategy().map_err(no_home)?;
    // Not every system has a place for state.
    Ok(base.state_dir().unwrap_or_else(|| base.data_dir()).join("taskgate"))
}

/// The FNV-1a hash of the words. It names files, so unlike the standard library's it must never change.
pub fn fingerprint(words: &[&str]) -> u64 {
    // No word can hold a zero byte, so the bytes say where a word ends.
    let bytes = words.iter().flat_map(|word| word.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wrap_waits_for_the_one_before_it() {
        let directory = tempfile::tempdir().expect("directory");
        let place = StorePlace::Sqlite(directory.path().join("wrap.db"));
        let before = open(&place, &[]).await.expect("first");
        let ending = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            drop(before);
        };
        let (opened, ()) = tokio::join!(open_or_sibling(place.clone(), &[]), ending);
        assert_eq!(opened.expect("opened").1, place);
    }

    #[tokio::test]
    async fn a_second_wrap_gets_a_sibling_and_the_file_again_once_it_is_free() {
        let directory = tempfile::tempdir().expect("directory");
        let place = StorePlace::Sqlite(directory.path().join("wrap.db"));
        let (first, at) = open_or_sibling(place.clone(), &[]).await.expect("first");
        assert_eq!(at, place);
        let (second, at) = open_or_sibling(place.clone(), &[]).await.expect("second");
        assert_eq!(at, StorePlace::Sqlite(directory.path().join("wrap-2.db")));
        let (_third, at) = open_or_sibling(place.clone(), &[]).await.expect("third");
        assert_eq!(at, StorePlace::Sqlite(directory.path().join("wrap-3.db")));
        drop((first, second));
        let (_again, at) = open_or_sibling(place.clone(), &[]).await.expect("again");
        assert_eq!(at, place);
    }

    #[tokio::test]
    async fn a_server_refuses_a_store_that_another_has() {
        let directory = tempfile::tempdir().expect("directory");
        let place = StorePlace::Sqlite(directory.path().join("taskgate.db"));
        let _held = open(&place, &[]).await.expect("first");
        let failure = open(&place, &[]).await.err().expect("is refused");
        assert_eq!(failure.code, ExitCode::StoreUnavailable);
        assert!(failure.message.contains("--store"), "{}", failure.message);
    }

    #[tokio::test]
    async fn a_file_that_is_not_ours_has_no_siblings() {
        let directory = tempfile::tempdir().expect("directory");
        let file = directory.path().join("notes.txt");
        std::fs::write(&file, "these are notes, not a database, and long enough to be looked at".repeat(9))
            .expect("write");
        let failure = open_or_sibling(StorePlace::Sqlite(file), &[]).await.err().expect("is refused");
        assert_eq!(failure.code, ExitCode::StoreUnavailable);
        assert!(!directory.path().join("notes-2.txt").exists(), "no sibling was made");
    }

    #[test]
    fn a_fingerprint_never_changes() {
        assert_eq!(fingerprint(&["command", "npx", "-y", "some-server"]), 0xdfda_5f07_e06e_acca);
        assert_ne!(fingerprint(&["a", "bc"]), fingerprint(&["ab", "c"]));
    }

    #[test]
    fn the_number_stands_before_the_extension() {
        assert_eq!(sibling(Path::new("/a/b.db"), 2), Path::new("/a/b-2.db"));
        assert_eq!(sibling(Path::new("b"), 3), Path::new("b-3"));
    }
}
