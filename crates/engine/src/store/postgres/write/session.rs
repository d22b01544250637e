use tokio_postgres::{Client, Statement};

use crate::store::postgres::connect::Connector;

/// A lane's connection, with its statements prepared: preparing one in the middle would cost a round trip.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) xact_id: Statement,
    pub(super) lock: Statement,
    pub(super) keyed: Statement,
    pub(super) delete: Statement,
    pub(super) create: Statement,
    pub(super) update: Statement,
    pub(super) append: Statement,
    pub(super) process: Process,
}

/// The server's process behind a session.
#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) number: i32,
    /// When it started, so that it is not taken for a later one of the same number.
    pub(super) started: String,
    /// Both together, under which it marks its transactions.
    pub(super) mark: String,
}

impl Session {
    /// Connects, or says why that is not possible.
    pub(super) async fn open(connector: &Connector) -> Result<Session, String> {
        let client = connector.connect().await?;
        let opening = async {
            client.execute(include_str!("../queries/mark_delete.sql"), &[]).await?;
            let (process, xact_id, lock, keyed, delete, create, update, append) = tokio::try_join!(
                client.query_one(include_str!("../queries/session_process.sql"), &[]),
                client.prepare(include_str!("../queries/xact_id.sql")),
                client.prepare(include_str!("../queries/task_lock.sql")),
                client.prepare(include_str!("../queries/task_keyed.sql")),
                client.prepare(include_str!("../queries/task_delete.sql")),
                client.prepare(include_str!("../queries/task_create.sql")),
                client.prepare(include_str!("../queries/task_update.sql")),
                client.prepare(include_str!("../queries/event_append.sql")),
            )?;
            let (number, started): (i32, String) = (process.try_get(0)?, process.try_get(1)?);
            let process = Process { number, mark: format!("{started} {number}"), started };
            Ok((process, xact_id, lock, keyed, delete, create, update, append))
        };
        let (process, xact_id, lock, keyed, delete, create, update, append) =
            connector.within(opening).await?;
        Ok(Session { client, xact_id, lock, keyed, delete, create, update, append, process })
    }
}
