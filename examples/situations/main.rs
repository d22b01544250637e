//! Two of the situations that tasks were made for (SEP-1686), as servers in this program: the screening of molecules in
//! batches, which goes on where it was when the program dies, and a research that takes its time and asks back.
//!
//! `cargo run --example situations`, then call `screen` or `research` at http://127.0.0.1:8000/mcp. Other places:
//! `cargo run --example situations -- ADDRESS DATABASE`.
#![forbid(unsafe_code)]

mod molecules;
mod research;

use std::time::Duration;

use taskgate_gateway::{
    Gateway, Speak, SqliteOptions, SqliteStore, ToolPolicy, UpstreamSpec, WorkClass, in_process,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or_else(|| "127.0.0.1:8000".to_owned());
    let database = words.next().map_or_else(|| std::env::temp_dir().join("situations.db"), Into::into);
    let poll_interval = Duration::from_millis(500);
    let screening = ToolPolicy { class: Some(WorkClass::Resumable), poll_interval, ..ToolPolicy::always() };
    // A research may be made again from the start: it only reads.
    let research = ToolPolicy { class: Some(WorkClass::Repeatable), poll_interval, ..ToolPolicy::always() };
    let gateway = Gateway::builder()
        .add(UpstreamSpec {
            policy: screening,
            ..UpstreamSpec::new("molecules", in_process(molecules::Screening))
        })
        // It asks as servers of 2025 do, in the middle of its work, whatever its caller speaks.
        .add(UpstreamSpec {
            policy: research,
            speak: Speak::Session,
            ..UpstreamSpec::new("research", in_process(research::Research))
        })
        .single_user(true)
        .store(SqliteStore::open(SqliteOptions::new(database))?)
        .build()
        .await?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("http://{}{}", listener.local_addr()?, gateway.settings().path);
    let stopped = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    gateway.serve_http(listener, stopped).await?;
    Ok(())
}
