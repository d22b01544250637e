//! Every fixture of the official conformance suite, in a plain rmcp handler that knows nothing of tasks, behind taskgate.
//!
//! `cargo run --release --example conformance -- --listen 127.0.0.1:8000 --single-user --store tasks.db`, or
//! `--stdio` instead of `--listen` to be started by a client. With `--repeatable` a computation that a crash interrupts is
//! run again, as a configured tool would be; without it such a task fails. With `--plain` alone it is the handler over
//! stdio with no taskgate in front: a server for `taskgate serve` or `wrap` to start. With `--plain-http` alone it is the same
//! over rmcp's own HTTP server, on a free loopback port.
#![forbid(unsafe_code)]

mod fixtures;
#[path = "../serve.rs"]
mod serve;

use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use taskgate_gateway::{Gateway, Settings, StreamSettings, ToolPolicy, WorkClass};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).is_some_and(|argument| argument == "--plain") {
        let plain = fixtures::Fixtures::new().serve(rmcp::transport::stdio()).await?;
        plain.waiting().await?;
        return Ok(());
    }
    if std::env::args().nth(1).is_some_and(|argument| argument == "--plain-http") {
        // Every request has a handler of its own, and what one of them changes is to be seen by all.
        let fixtures = fixtures::Fixtures::new();
        let sessions = Arc::<LocalSessionManager>::default();
        let service = StreamableHttpService::new(move || Ok(fixtures.clone()), sessions, Default::default());
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        eprintln!("rmcp serves http://{}/mcp", listener.local_addr()?);
        axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
        return Ok(());
    }
    let (repeatable, arguments): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|argument| argument == "--repeatable");
    let class = (!repeatable.is_empty()).then_some(WorkClass::Repeatable);
    let quick = ToolPolicy { poll_interval: Duration::from_millis(500), ..ToolPolicy::default() };
    let always = ToolPolicy { poll_interval: Duration::from_millis(500), ..ToolPolicy::always() };
    let never = ToolPolicy::never();
    let optional = |inline_for| ToolPolicy { inline_for, ..quick.clone() };
    // So that the suite sees how a stream is polled, and every client has to.
    let streams = StreamSettings {
        close_after: Some(Duration::from_secs(1)),
        retry: Duration::from_millis(200),
        ..StreamSettings::default()
    };
    let builder = Gateway::builder()
        .settings(Settings { streams, ..Settings::default() })
        .upstream(fixtures::Fixtures::new())
        .policy(never)
        .tool("slow_compute", ToolPolicy { class, ..optional(Duration::ZERO) })
        .tool("protocol_error_job", optional(Duration::ZERO))
        .tool("failing_job", always.clone())
        .tool("confirm_delete", always.clone())
        .tool("multi_input", always)
        // Asks before it works: the question is answered on the spot, the work afterwards becomes a task.
        .tool("test_tool_with_task", optional(Duration::from_millis(200)));
    serve::run(builder, arguments.into_iter()).await
}
