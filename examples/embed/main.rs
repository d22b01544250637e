//! taskgate in your own program: an rmcp handler gains durable tasks, mounted in an axum app beside other routes.
//!
//! `cargo run --example embed`, then POST to http://127.0.0.1:8000/mcp; Ctrl-C ends it in good order. Another address can be
//! given as the argument.
#![forbid(unsafe_code)]

#[path = "../bench/tools.rs"]
mod tools;

use axum::Router;
use axum::routing::get;
use taskgate_gateway::{Gateway, SqliteOptions, SqliteStore, ToolPolicy};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gateway = Gateway::builder()
        .upstream(tools::BenchTools::new()) // any rmcp ServerHandler
        .tool("sleep", ToolPolicy::always()) // the others become tasks when they take longer than two seconds
        .store(SqliteStore::open(SqliteOptions::new(std::env::temp_dir().join("embed-tasks.db")))?)
        .build()
        .await?;
    let app = Router::new().route("/health", get(|| async { "ok" })).merge(gateway.router());
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:8000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("http://{0}{1} and http://{0}/health", listener.local_addr()?, gateway.settings().path);
    let stopped = async move {
        let _ = tokio::signal::ctrl_c().await;
        gateway.drain().await; // running work gets ten seconds, streams end
    };
    axum::serve(listener, app).with_graceful_shutdown(stopped).await?;
    Ok(())
}
