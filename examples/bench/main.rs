//! The three tools of the benchmark, in a plain rmcp handler behind taskgate: `echo` is never a task, `instant` and
//! `sleep` always are.
//!
//! `cargo run --release --example bench -- --listen 127.0.0.1:8000 --single-user --store tasks.db`
#![forbid(unsafe_code)]

#[path = "../serve.rs"]
mod serve;
mod tools;

use taskgate_gateway::{Gateway, ToolPolicy};

/// The allocator of the `taskgate` binary; a program that embeds the gateway chooses its own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let builder = Gateway::builder()
        .upstream(tools::BenchTools::new())
        .tool("echo", ToolPolicy::never())
        .tool("instant", ToolPolicy::always())
        .tool("sleep", ToolPolicy::always());
    serve::run(builder, std::env::args().skip(1)).await
}
