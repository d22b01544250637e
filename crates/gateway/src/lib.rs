//! Listens, decides, relays: MCP servers in front of upstream servers whose slow tools become durable tasks.
//!
//! ```no_run
//! # async fn example(my_handler: impl rmcp::ServerHandler) -> Result<(), Box<dyn std::error::Error>> {
//! use taskgate_gateway::{Gateway, SqliteOptions, SqliteStore};
//!
//! let store = SqliteStore::open(SqliteOptions::new("tasks.db"))?;
//! let gateway = Gateway::builder()
//!     .upstream(my_handler)
//!     .store(store)
//!     .build()
//!     .await?;
//! let app: axum::Router = gateway.router();
//! # Ok(()) }
//! ```

pub mod admin;
mod audit;
mod backlog;
mod bounds;
mod builder;
mod client_task;
mod config;
mod gateway;
mod hosts;
mod immediate;
mod metrics;
mod outlet;
mod policy;
mod pool;
mod random;
mod relay;
mod reload;
mod route;
mod rules;
mod server;
mod session;
mod stream;
mod to_client;
mod upstream;
mod upstreams;

pub use audit::{AuditPlace, AuditSettings, OnAuditFailure};
pub use bounds::LimitSettings;
pub use builder::{BuildError, GatewayBuilder};
pub use config::*;
pub use gateway::Gateway;
pub use hosts::HostSettings;
pub use policy::{
    Bind, CheckOutput, ConnectionSettings, DatabaseUrl, Settings, Speak, StorePlace, StreamSettings,
    TaskMode, TaskQuestions, TlsFiles, ToolPolicy, UpstreamKind, UpstreamSessions, UpstreamSpec,
    UpstreamTasks,
};
pub use reload::Reloaded;
pub use rules::hints_of;
pub use server::http::TlsError;
pub use taskgate_access as access;
pub use taskgate_client::transport::http::{Auth, HttpServer, ServerUrl, TokenServer};
pub use taskgate_client::transport::stdio::StdioCommand;
pub use taskgate_credentials::{OAuth, Secret};
pub use taskgate_detached::Launcher;
pub use taskgate_engine::store::{Findings, Kept, Vacuumed, transfer};
pub use taskgate_engine::{Engine, MemoryStore, NodeSettings, SqliteOptions, SqliteStore, Store, StoreError};
#[cfg(feature = "postgres")]
pub use taskgate_engine::{PostgresOptions, PostgresStore};
pub use taskgate_task::{LifetimePolicy, Owner, Payload, Status, Task, TaskId, WorkClass};
pub use taskgate_wire::tool::ToolHints;
pub use upstream::{
    Checkpoint, CommandTool, Commands, Group as CommandWords, InvalidSchema, JobTool, NoPattern, NoWord,
    NotSaved, Output as CommandOutput, Pattern as ProgressPattern, State as UpstreamState,
    Stdin as CommandStdin, ToolSchema, Word as CommandWord,
};

/// An rmcp `ServerHandler` in this program as an upstream, over an in-memory transport and without any change to it.
pub fn in_process<H: rmcp::ServerHandler>(handler: H) -> UpstreamKind {
    let handler = std::sync::Arc::new(handler);
    UpstreamKind::InProcess(std::sync::Arc::new(move || upstream::in_process::serve(handler.clone())))
}
