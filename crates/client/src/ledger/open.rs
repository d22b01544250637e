use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

/// Says in the file's header whose file it is: "tgcl".
const APPLICATION: i32 = 0x7467_636c;
/// The layout of this version.
const LAYOUT: i32 = 2;
/// How long another program may hold the file.
const BUSY: Duration = Duration::from_secs(10);
/// How long ended calls stay, in milliseconds: long enough to see what has become of them.
const KEPT: i64 = 7 * 24 * 60 * 60 * 1000;

/// Opens the file, and makes it what it has to be.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn open(path: &Path) -> Result<Connection, String> {
    // Opening a pipe would wait for whoever is at its other end.
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err("it is no regular file".to_owned());
    }
    make(path).map_err(|error| error.to_string())?;
    let words = |error: rusqlite::Error| error.to_string();
    let mut db = Connection::open(path).map_err(words)?;
    db.busy_timeout(BUSY).map_err(words)?;
    let number = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i32>(0)).map_err(words);
    let (application, layout) = (number("application_id")?, number("user_version")?);
    let is_empty =
        db.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get::<_, i64>(0)).map_err(words)?
            == 0;
    if !is_empty && application != APPLICATION {
        return Err("it is a database of something else".to_owned());
    }
    if layout > LAYOUT {
        return Err("it was written by a newer version".to_owned());
    }
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA foreign_keys = ON;",
    )
    .map_err(words)?;
    lay_out(&mut db).map_err(words)?;
    prune(&db).map_err(words)?;
    Ok(db)
}

/// Makes the tables, unless another program was faster.
fn lay_out(db: &mut Connection) -> rusqlite::Result<()> {
    let change = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let layout: i32 = change.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if layout < 1 {
        change.execute_batch(include_str!("layout.sql"))?;
    }
    if layout < LAYOUT {
        change.execute_batch(include_str!("hosted.sql"))?;
        change.pragma_update(None, "application_id", APPLICATION)?;
        change.pragma_update(None, "user_version", LAYOUT)?;
    }
    change.commit()
}

fn prune(db: &Connection) -> rusqlite::Result<()> {
    let now = i64::try_from(crate::requestor::now()).unwrap_or(i64::MAX);
    db.execute("DELETE FROM call WHERE state = 'ended' AND created < ?1", [now.saturating_sub(KEPT)])?;
    db.execute("DELETE FROM hosted WHERE created + ttl <= ?1", [now])?;
    Ok(())
}

/// Makes the file, readable for its owner alone.
fn make(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}
