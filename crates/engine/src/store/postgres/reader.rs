use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, RecyclingMethod};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, Error, Row};

use super::PostgresOptions;
use super::backoff::Backoff;
use super::connect::Connector;
use super::fault::{failed, is_refusal, is_session_stale, say};
use crate::StoreError;

/// The parameters of a statement.
pub(super) type Params = Vec<Box<dyn ToSql + Send + Sync>>;

/// A few sessions that answer questions.
#[derive(Debug, Clone)]
pub(super) struct Readers {
    pool: deadpool_postgres::Pool,
    connector: Connector,
    patience: Duration,
}

impl Readers {
    /// Room for `options.readers` sessions; none is opened before it is needed.
    pub(super) fn new(connector: &Connector, options: &PostgresOptions) -> Result<Self, StoreError> {
        // Where to connect to is the connector's to know.
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(Config::new(), connector.clone(), config);
        let pool = deadpool_postgres::Pool::builder(manager)
            .max_size(options.readers.max(1))
            .build()
            .map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(Readers { pool, connector: connector.clone(), patience: options.patience })
    }

    /// The answer to one statement, which must be safe to repeat: one whose answer was lost with its session is asked again.
    pub(super) async fn query(&self, sql: &'static str, params: Params) -> Result<Vec<Row>, StoreError> {
        let until = Instant::now() + self.patience;
        let mut backoff = Backoff::new();
        loop {
            let why = match timeout_at(until, self.pool.get()).await {
                Ok(Ok(session)) => {
                    match timeout(self.connector.answer(), ask(&session, sql, &params)).await {
                        Ok(Ok(rows)) => return Ok(rows),
                        Ok(Err(error)) if is_refusal(&error) && !is_session_stale(&error) => {
                            return Err(failed(&error));
                        }
                        Ok(Err(error)) => {
                            drop(Object::take(session));
                            say(&error)
                        }
                        Err(_) => {
                            drop(Object::take(session));
                            format!("no answer within {:?}", self.connector.answer())
                        }
                    }
                }
                Ok(Err(deadpool_postgres::PoolError::Backend(error))) => say(&error),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no session was free within {:?}", self.patience),
            };
            let pause = backoff.next();
            if Instant::now() + pause >= until {
                return Err(self.connector.unreachable(&why));
            }
            tokio::time::sleep(pause).await;
        }
    }
}

async fn ask(session: &deadpool_postgres::Client, sql: &str, params: &Params) -> Result<Vec<Row>, Error> {
    let statement = session.prepare_cached(sql).await?;
    let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| &**param as _).collect();
    session.query(&statement, &params).await
}
