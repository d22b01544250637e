//! The screening of molecules: many, in batches, each of which is dear. What is done is put down and never done again.

use std::collections::BTreeMap;
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskgate_gateway::Checkpoint;

/// A server with the tool `screen`.
#[derive(Clone)]
pub struct Screening;

#[derive(Deserialize)]
struct Asked {
    /// In SMILES.
    molecules: Vec<String>,
    #[serde(default = "ten")]
    batch: usize,
    /// What a batch takes, as a model of a target would.
    #[serde(default)]
    ms: u64,
}

fn ten() -> usize {
    10
}

/// What is known so far: what the next process goes on from.
#[derive(Default, Serialize, Deserialize)]
struct Screened {
    done: usize,
    batches: usize,
    candidates: BTreeMap<String, f64>,
    unreadable: Vec<String>,
}

impl ServerHandler for Screening {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({
            "type": "object",
            "properties": {
                "molecules": {"type": "array", "items": {"type": "string"}, "description": "In SMILES."},
                "batch": {"type": "integer", "minimum": 1},
                "ms": {"type": "integer", "description": "What a batch takes, in milliseconds."},
            },
            "required": ["molecules"],
        });
        let what = "Finds the molecules that are light enough for a drug that is swallowed.";
        Ok(ListToolsResult::with_all_items(vec![Tool::new("screen", what, object(schema))]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let failed = |why: &dyn std::fmt::Display| ErrorData::internal_error(why.to_string(), None);
        let asked = serde_json::Value::Object(request.arguments.unwrap_or_default());
        let asked: Asked = serde_json::from_value(asked)
            .map_err(|error| ErrorData::invalid_params(format!("Invalid arguments: {error}"), None))?;
        let checkpoint = context.extensions.get::<Checkpoint>();
        let saved = checkpoint.and_then(Checkpoint::saved);
        let mut screened: Screened = match saved {
            Some(saved) => serde_json::from_str(saved.as_str()).map_err(|error| failed(&error))?,
            None => Screened::default(),
        };
        let batches: Vec<&[String]> = asked.molecules.chunks(asked.batch.max(1)).collect();
        for batch in batches.iter().skip(screened.batches) {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(asked.ms)) => {}
                () = context.ct.cancelled() => return Err(failed(&"cancelled")),
            }
            for smiles in *batch {
                match weight(smiles) {
                    Some(weight) if weight <= 500.0 => {
                        screened.candidates.insert(smiles.clone(), weight);
                    }
                    Some(_) => {}
                    None => screened.unreadable.push(smiles.clone()),
                }
            }
            screened.batches += 1;
            screened.done += batch.len();
            if let Some(checkpoint) = checkpoint {
                checkpoint.save(&screened).await.map_err(|error| failed(&error))?;
            }
            if let Some(token) = context.meta.get_progress_token() {
                let message = format!("{} of {} molecules", screened.done, asked.molecules.len());
                let said = ProgressNotificationParam::new(token, screened.done as f64)
                    .with_total(asked.molecules.len() as f64)
                    .with_message(message);
                let _ = context.peer.notify_progress(said).await;
            }
        }
        let screened = serde_json::to_value(screened).map_err(|error| failed(&error))?;
        Ok(CallToolResult::structured(screened).into())
    }
}

/// The weight of the atoms that a SMILES names, without hydrogen; `None` if it names others than the usual ones.
fn weight(smiles: &str) -> Option<f64> {
    const ATOMS: [(&str, f64); 10] = [
        ("Cl", 35.45),
        ("Br", 79.904),
        ("C", 12.011),
        ("N", 14.007),
        ("O", 15.999),
        ("S", 32.06),
        ("P", 30.974),
        ("F", 18.998),
        ("I", 126.904),
        ("H", 1.008),
    ];
    let (mut weight, mut rest) = (0.0, smiles);
    while let Some(first) = rest.chars().next() {
        let upper = first.to_ascii_uppercase().to_string();
        let atom = ATOMS.iter().find(|(name, _)| rest.starts_with(name));
        // Atoms of a ring are written small.
        let ringed = ATOMS.iter().find(|(name, _)| "cnosp".contains(first) && **name == *upper);
        rest = match atom.or(ringed) {
            Some((name, mass)) => {
                weight += mass;
                &rest[name.len()..]
            }
            None if "()[]=#@+-/\\.%".contains(first) || first.is_ascii_digit() => &rest[1..],
            None => return None,
        };
    }
    (weight > 0.0).then_some(weight)
}
