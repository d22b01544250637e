use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Error, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::fault::say;
use super::{PostgresOptions, tls, url};
use crate::StoreError;

/// The half of a connection that moves the bytes.
pub(super) type Wire = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// Makes sessions, all of them set up the same way.
#[derive(Clone)]
pub(super) struct Connector(Arc<Parts>);

struct Parts {
    config: Config,
    tls: MakeRustlsConnect,
    place: String,
    setup: String,
    timeout: Duration,
    answer: Duration,
}

impl Connector {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self, StoreError> {
        if !options.is_schema_plain() {
            return Err(StoreError::Failed(format!(
                "{:?} cannot be the schema's name: use lower-case letters, digits and _",
                options.schema
            )));
        }
        let url::Target { mut config, root_certificates } = url::read(&options.url)?;
        let roots = options.root_certificates.as_ref().or(root_certificates.as_ref());
        let tls = tls::connector(config.get_ssl_mode(), roots.map(std::path::PathBuf::as_path))?;
        let place = url::place(&config);
        if config.get_application_name().is_none() {
            config.application_name("taskgate");
        }
        // After a failover the server that was written to only reads, and another one can be written to.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.connect_timeout(options.connect_timeout);
        // A network that was cut says nothing: unanswered data ends the connection, and silence is asked whether it is alive.
        config.tcp_user_timeout(options.statement_timeout);
        config.keepalives_idle(Duration::from_secs(10));
        config.keepalives_interval(Duration::from_secs(5));
        config.keepalives_retries(3);
        // The server's own timeout comes first, unless the server or the way to it is gone.
        let answer = options.statement_timeout + Duration::from_secs(2);
        let timeout = options.connect_timeout;
        Ok(Connector(Arc::new(Parts { config, tls, place, setup: setup(options), timeout, answer })))
    }

    /// A session of the server. The task that moves its bytes ends with the client.
    pub(super) async fn connect(&self) -> Result<Client, String> {
        let (client, wire) = self.open().await?;
        tokio::spawn(drive(wire));
        self.within(client.batch_execute(&self.0.setup)).await?;
        Ok(client)
    }

    /// The answer of the server, which must come before the session is taken for dead.
    pub(super) async fn within<T>(&self, asked: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
        match tokio::time::timeout(self.0.answer, asked).await {
            Ok(answered) => answered.map_err(|error| say(&error)),
            Err(_) => Err(format!("no answer within {:?}", self.0.answer)),
        }
    }

    /// A session whose bytes the caller moves.
    pub(super) async fn open(&self) -> Result<(Client, Wire), String> {
        let Parts { config, tls, timeout, .. } = &*self.0;
        // The client's own timeout is for one address; this one is for all of them and the handshakes.
        match tokio::time::timeout(*timeout, config.connect(tls.clone())).await {
            Ok(connected) => connected.map_err(|error| say(&error)),
            Err(_) => Err(format!("no answer within {timeout:?}")),
        }
    }

    /// What every session is told first.
    pub(super) fn setup(&self) -> &str {
        &self.0.setup
    }

    /// How long to wait for an answer before the session is taken for dead.
    pub(super) fn answer(&self) -> Duration {
        self.0.answer
    }

    /// That there is no session to be had.
    pub(super) fn unreachable(&self, why: &str) -> StoreError {
        StoreError::Failed(format!("cannot reach the database at {}: {why}", self.0.place))
    }
}

/// Moves the bytes until the client is dropped or the connection ends; whoever waits for an answer is told which.
async fn drive(wire: Wire) {
    if let Err(error) = wire.await {
        tracing::debug!(error = %say(&error), "a connection to the database ended");
    }
}

impl deadpool_postgres::Connect for Connector {
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        let Parts { config, tls, setup, .. } = &*self.0;
        Box::pin(async move {
            let (client, wire) = config.connect(tls.clone()).await?;
            let driving = tokio::spawn(drive(wire));
            client.batch_execute(setup).await?;
            Ok((client, driving))
        })
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Connector").field(&self.0.place).finish()
    }
}

/// What every session is told first, whatever the server's defaults are.
fn setup(options: &PostgresOptions) -> String {
    let limit = options.statement_timeout.as_millis().max(2);
    format!(
        "{} SET search_path TO \"{}\";
         SET statement_timeout TO {limit}; SET lock_timeout TO {}; SET idle_in_transaction_session_timeout TO {};
         SET tcp_user_timeout TO {limit};",
        include_str!("queries/session.sql"),
        options.schema,
        // A lock is waited for until the session that holds it must have gone, if it does nothing more.
        limit * 4 / 5,
        limit / 2,
    )
}
