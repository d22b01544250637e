//! The demo server: an ordinary MCP server that has never heard of tasks.
//!
//! It is here so that a first try of taskgate needs nothing else. One of its tools is slow, one asks a question, one
//! fails and logs why, and one is instant, which is all it takes to see what becomes a task and what does not.
#![expect(deprecated, reason = "logging is deprecated, but today's servers still do it")]

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, ElicitRequest,
    ElicitRequestParams, Implementation, InputRequest, InputRequests, InputRequiredResult, JsonObject,
    ListToolsResult, LoggingLevel, LoggingMessageNotificationParam, PaginatedRequestParams,
    ProgressNotificationParam, ProtocolVersion, ServerCapabilities, ServerConfig, ServerRequest,
    SetLevelRequestParams, Tool, ToolAnnotations, object,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData as McpError, ServerHandler};
use serde_json::{Value, json};

/// The key of the one question, in the generation that answers a call with its questions.
const QUESTION: &str = "time";

/// What this server wants back with the answer, for whoever tries it to see how such a state travels.
const ASKED: &str = "asked for the time";

/// The longest a report takes, in seconds.
const LONGEST_REPORT: u64 = 3600;

/// The demo server.
#[derive(Debug, Clone, Copy)]
pub struct Demo;

impl ServerHandler for Demo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_logging().enable_tools().build())
            .with_server_info(Implementation::new("taskgate-demo", env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "Tools to try out taskgate: a slow one, one that asks, one that fails, an instant one.",
            )
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools().into_iter().find(|tool| tool.name == name)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, McpError> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), McpError> {
        // There is but one message, and it is an error.
        Ok(())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, McpError> {
        let cancelled = context.ct.clone();
        tokio::select! {
            answer = answer(&request, &context) => answer,
            // Nobody waits for this; what counts is that the work has stopped.
            () = cancelled.cancelled() => Err(McpError::internal_error("The call was cancelled.", None)),
        }
    }
}

fn tools() -> Vec<Tool> {
    let tool = |name: &'static str, description: &'static str, properties: Value, required: &[&str]| {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        Tool::new(name, description, object(schema))
    };
    let seconds = json!({"type": "integer", "minimum": 0, "maximum": LONGEST_REPORT, "default": 10});
    let report =
        json!({"topic": {"type": "string", "description": "What the report is about."}, "seconds": seconds});
    let guests = json!({"guests": {"type": "integer", "minimum": 1, "maximum": 20}});
    let numbers = json!({"a": {"type": "number"}, "b": {"type": "number"}});
    // Both can be called again without harm, which lets taskgate repeat them after a crash.
    let harmless = || ToolAnnotations::new().read_only(true);
    vec![
        tool(
            "slow_report",
            "Writes a report. Takes a while and says every second how far it is.",
            report,
            &["topic"],
        )
        .with_annotations(harmless()),
        tool("book_table", "Books a table at a restaurant. Asks for the time.", guests, &["guests"]),
        tool("always_fails", "Logs an error and fails after a second.", json!({}), &[]),
        tool("add", "Adds two numbers, at once.", numbers, &["a", "b"]).with_annotations(harmless()),
    ]
}

async fn answer(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, McpError> {
    let none = JsonObject::new();
    let arguments = request.arguments.as_ref().unwrap_or(&none);
    match request.name.as_ref() {
        "slow_report" => slow_report(arguments, context).await,
        "book_table" => book_table(arguments, request, context).await,
        "always_fails" => {
            let said =
                LoggingMessageNotificationParam::new(LoggingLevel::Error, json!("Nothing works today."));
            // taskgate passes it on to those who want such messages.
            let _ = context.peer.notify_logging_message(said).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(CallToolResult::error(vec![ContentBlock::text("It did not work, as always.")]).into())
        }
        "add" => {
            let sum = number(arguments, "a")? + number(arguments, "b")?;
            Ok(text(sum.to_string()))
        }
        unknown => Err(McpError::invalid_params(format!("Unknown tool: {unknown}"), None)),
    }
}

async fn slow_report(
    arguments: &JsonObject,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, McpError> {
    let topic = arguments.get("topic").and_then(Value::as_str).ok_or_else(|| wrong("topic", "a string"))?;
    let seconds = match arguments.get("seconds") {
        None => 10,
        Some(seconds) => whole(seconds, 0, LONGEST_REPORT)
            .ok_or_else(|| wrong("seconds", &format!("a whole number from 0 to {LONGEST_REPORT}")))?,
    };
    for second in 1..=seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, second as f64)
                .with_total(seconds as f64)
                .with_message(format!("Wrote page {second} of {seconds}"));
            // A report is worth finishing even if nobody watches.
            let _ = context.peer.notify_progress(progress).await;
        }
    }
    Ok(text(format!("Report on {topic}: {seconds} pages in {seconds} seconds, and all is well.")))
}

async fn book_table(
    arguments: &JsonObject,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, McpError> {
    let guests = arguments.get("guests").and_then(|guests| whole(guests, 1, 20));
    let guests = guests.ok_or_else(|| wrong("guests", "a whole number from 1 to 20"))?;
    let answer = match request.input_responses.as_ref().and_then(|answers| answers.get(QUESTION)) {
        Some(answer) => answer.clone(),
        None => match ask(guests, context).await? {
            Asked::Answered(answer) => answer,
            Asked::Later(question) => return Ok(question.into()),
        },
    };
    let time = answer.get("content").and_then(|content| content.get("time")).and_then(Value::as_str);
    let accepted = answer.get("action").and_then(Value::as_str) == Some("accept");
    Ok(text(match time.filter(|_| accepted) {
        Some(time) => format!("A table for {guests} is booked at {time}."),
        None => "No table was booked.".to_owned(),
    }))
}

/// What became of a question.
enum Asked {
    /// The client has answered.
    Answered(Value),
    /// The call ends with the question, and is made again with the answer.
    Later(InputRequiredResult),
}

/// Asks for the time, in the way of the request's protocol version.
async fn ask(guests: u64, context: &RequestContext<RoleServer>) -> Result<Asked, McpError> {
    let failed =
        |error: &dyn std::fmt::Display| McpError::internal_error(format!("Cannot ask: {error}"), None);
    let declared = context.client_capabilities().unwrap_or_default();
    if declared.elicitation.is_none() {
        let needed = ClientCapabilities::builder().enable_elicitation().build();
        return Err(McpError::missing_required_client_capability(needed));
    }
    let time = json!({"type": "string", "title": "Time", "enum": ["18:00", "19:30", "21:00"]});
    let form = json!({
        "mode": "form",
        "message": format!("At what time do you want a table for {guests}?"),
        "requestedSchema": {"type": "object", "properties": {"time": time}, "required": ["time"]},
    });
    let form: ElicitRequestParams = serde_json::from_value(form).map_err(|error| failed(&error))?;
    let version = context.protocol_version();
    if version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str()) {
        let question = InputRequest::Elicitation(ElicitRequest::new(form));
        let questions = InputRequests::from([(QUESTION.to_owned(), question)]);
        return Ok(Asked::Later(InputRequiredResult::new(Some(questions), Some(ASKED.to_owned()))));
    }
    let question = ServerRequest::ElicitRequest(ElicitRequest::new(form));
    let answer = context.peer.send_request(question).await.map_err(|error| failed(&error))?;
    serde_json::to_value(answer).map(Asked::Answered).map_err(|error| failed(&error))
}

fn number(arguments: &JsonObject, name: &str) -> Result<f64, McpError> {
    arguments.get(name).and_then(Value::as_f64).ok_or_else(|| wrong(name, "a number"))
}

/// A whole number within bounds; clients that know only floating point write 4.0.
fn whole(value: &Value, least: u64, most: u64) -> Option<u64> {
    let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
    let is_within = number >= least as f64 && number <= most as f64;
    is_within.then_some(number as u64)
}

fn wrong(name: &str, allowed: &str) -> McpError {
    McpError::invalid_params(format!("The argument {name} must be {allowed}."), None)
}

fn text(text: String) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}
