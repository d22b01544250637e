//! A program with one job, which it gets done however often it is killed: calling a tool once.
//!
//! `cargo run -p taskgate-client --features ledger --example ledger -- http://127.0.0.1:8000/mcp calls.db TOOL '{"some": "arguments"}'`
//!
//! Killed and started again, it goes on with the call that it made before. What the tool asks is answered with a line of stdin.
#![forbid(unsafe_code)]

use std::io::BufRead;

use serde_json::{Value, json};
use taskgate_client::transport::http::ServerUrl;
use taskgate_client::{Answers, Client, Event, HttpServer, Ledger, PendingCall};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, file, tool, arguments] = &words[..] else {
        return Err("ledger URL FILE TOOL ARGUMENTS".into());
    };
    let arguments: Value = serde_json::from_str(arguments)?;
    let client = Client::builder(HttpServer::new(ServerUrl::parse(url)?))
        .answers(Answers::ELICITATION)
        .ledger(Ledger::open(file)?)
        .connect()
        .await?;
    println!("connected");
    let unfinished = client.resume_all_with(|_| Some(arguments.clone())).await?.pop();
    let mut call: PendingCall = unfinished.unwrap_or_else(|| client.call(tool, arguments.clone()));
    while let Some(event) = call.next().await {
        match event {
            Event::Accepted(_) => println!("accepted"),
            Event::Asked(input) => {
                println!("asked");
                let line = std::io::stdin().lock().lines().next().unwrap_or_else(|| Ok(String::new()))?;
                input.answer(json!({ "value": line }));
            }
            Event::Answered(_) => println!("answered"),
            Event::Status(state) => println!("{:?}", state.status),
            Event::Done => println!("done"),
            _ => {}
        }
    }
    println!("result: {}", call.result().await?.text());
    client.close().await;
    Ok(())
}
