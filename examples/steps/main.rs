//! Work with checkpoints for the proof: every step leaves a trace in a folder, as those of `proof/src/bin/effect-server.rs` do.
//!
//! `steps ADDRESS DATABASE FOLDER`; the tool is `steps {label, to, gated}`. With `gated`, step N waits for the file
//! FOLDER/step-N.
#![forbid(unsafe_code)]

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use serde_json::json;
use taskgate_gateway::{Checkpoint, Gateway, Settings, SqliteOptions, SqliteStore, ToolPolicy, WorkClass};

#[derive(Clone)]
struct Steps(PathBuf);

impl ServerHandler for Steps {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = object(json!({ "type": "object" }));
        Ok(ListToolsResult::with_all_items(vec![Tool::new("steps", "Works step by step.", schema)]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let failed = |why: String| ErrorData::internal_error(why, None);
        let arguments = json!(request.arguments);
        let (label, to) = (arguments["label"].as_str().unwrap_or_default(), arguments["to"].as_u64());
        let checkpoint = context.extensions.get::<Checkpoint>().cloned();
        let checkpoint = checkpoint.ok_or_else(|| failed("there are no checkpoints".to_owned()))?;
        let done: u64 = match checkpoint.saved() {
            Some(saved) => serde_json::from_str(saved.as_str()).map_err(|error| failed(error.to_string()))?,
            None => 0,
        };
        let mut nonce = String::new();
        for step in done + 1..=to.unwrap_or_default() {
            let gate = self.0.join(format!("step-{step}"));
            while arguments["gated"] == true && !gate.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            nonce = format!("{label} {step} {}", std::process::id());
            self.note(label, step, &nonce).map_err(|error| failed(error.to_string()))?;
            checkpoint.save(&step).await.map_err(|error| failed(error.to_string()))?;
        }
        // Whoever is taken up after the last step has nothing to do, and says which step that was.
        if nonce.is_empty() {
            nonce = format!("{label} {done} {}", std::process::id());
            self.note(label, done, &nonce).map_err(|error| failed(error.to_string()))?;
        }
        Ok(CallToolResult::success(vec![ContentBlock::text(format!("{label} by {nonce}"))]).into())
    }
}

impl Steps {
    fn note(&self, label: &str, step: u64, nonce: &str) -> std::io::Result<()> {
        let effect = json!({
            "label": label, "class": "resumable", "step": step.to_string(), "nonce": nonce, "node": "one",
        });
        let mut file = OpenOptions::new().create(true).append(true).open(self.0.join("effects"))?;
        file.write_all(format!("{effect}\n").as_bytes())?;
        file.sync_data()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, address, database, folder] = words.as_slice() else {
        return Err("steps ADDRESS DATABASE FOLDER".into());
    };
    let resumed = ToolPolicy { class: Some(WorkClass::Resumable), ..ToolPolicy::always() };
    let gateway = Gateway::builder()
        .upstream(Steps(folder.into()))
        .tool("steps", resumed)
        .store(SqliteStore::open(SqliteOptions::new(database))?)
        .settings(Settings { single_user: true, ..Settings::default() })
        .build()
        .await?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("http://{}{}", listener.local_addr()?, gateway.settings().path);
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    gateway.serve_http(listener, async move { terminate.recv().await.map_or((), |()| ()) }).await?;
    Ok(())
}
