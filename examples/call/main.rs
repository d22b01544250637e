//! Calls a tool of any MCP server and waits for its result, whatever the server makes of the call.
//!
//! `cargo run -p taskgate-client --example call -- http://127.0.0.1:8000/mcp TOOL '{"some": "arguments"}'`
#![forbid(unsafe_code)]

use taskgate_client::transport::http::ServerUrl;
use taskgate_client::{Client, HttpServer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, tool, arguments] = &words[..] else { return Err("call URL TOOL ARGUMENTS".into()) };
    let client = Client::builder(HttpServer::new(ServerUrl::parse(url)?)).connect().await?;
    let mut call = client.call(tool, serde_json::from_str(arguments)?);
    while let Some(event) = call.next().await {
        eprintln!("{event:?}"); // a handle, a state, progress, a question
    }
    println!("{}", call.result().await?.text());
    client.close().await;
    Ok(())
}
