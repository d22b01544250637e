//! What the examples share: their flags, and serving until a signal.

use std::sync::Arc;

use taskgate_gateway::{GatewayBuilder, MemoryStore, SqliteOptions, SqliteStore, Store};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Reads `--listen ADDR` or `--stdio`, `--single-user` and `--store FILE`, and serves.
pub async fn run(
    builder: GatewayBuilder,
    mut arguments: impl Iterator<Item = String>,
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut listen, mut store, mut single_user, mut stdio) =
        ("127.0.0.1:8000".to_owned(), None, false, false);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--listen" => listen = value()?,
            "--store" => store = Some(value()?),
            "--single-user" => single_user = true,
            "--stdio" => stdio = true,
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let store: Arc<dyn Store> = match store {
        Some(file) => Arc::new(SqliteStore::open(SqliteOptions::new(file))?),
        None => Arc::new(MemoryStore::new()),
    };
    let gateway = builder.shared_store(store).single_user(single_user).build().await?;
    let mut terminated = signal(SignalKind::terminate())?;
    let shutdown = async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    if stdio {
        gateway.serve_stdio(tokio::io::stdin(), tokio::io::stdout(), shutdown).await?;
    } else {
        let listener = TcpListener::bind(listen).await?;
        eprintln!("serving at http://{}{}", listener.local_addr()?, gateway.settings().path);
        gateway.serve_http(listener, shutdown).await?;
    }
    Ok(())
}
