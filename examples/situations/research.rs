//! A research: it looks through many pages, asks its caller what is meant when that is not clear, and writes a report.

use std::fs;
use std::path::PathBuf;

use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use serde_json::json;

/// A server with the tool `research`.
#[derive(Clone)]
pub struct Research;

/// A page, and the paragraphs of it that are about the question, the best one first.
struct Found {
    page: String,
    paragraphs: Vec<(usize, String)>,
}

impl ServerHandler for Research {
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
                "question": {"type": "string"},
                "folder": {"type": "string", "description": "Where the pages are, in Markdown."},
            },
            "required": ["question", "folder"],
        });
        let what = "Reads all pages of a folder for a question and writes a report.";
        Ok(ListToolsResult::with_all_items(vec![Tool::new("research", what, object(schema))]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = |name: &str| {
            let given = request.arguments.as_ref().and_then(|all| all.get(name)?.as_str());
            given.ok_or_else(|| ErrorData::invalid_params(format!("`{name}` must be a string"), None))
        };
        let (question, folder) = (text("question")?, PathBuf::from(text("folder")?));
        let mut pages: Vec<PathBuf> = fs::read_dir(&folder)
            .map_err(|error| ErrorData::invalid_params(format!("{}: {error}", folder.display()), None))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|kind| kind == "md"))
            .collect();
        pages.sort();
        let mut found = Vec::new();
        for (number, path) in pages.iter().enumerate() {
            let page = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if let Some(token) = context.meta.get_progress_token() {
                let said = ProgressNotificationParam::new(token, number as f64)
                    .with_total(pages.len() as f64)
                    .with_message(format!("reading {page}"));
                let _ = context.peer.notify_progress(said).await;
            }
            let paragraphs = about(question, &fs::read_to_string(path).unwrap_or_default());
            if !paragraphs.is_empty() {
                found.push(Found { page, paragraphs });
            }
        }
        found.sort_by_key(|found| std::cmp::Reverse(found.paragraphs[0].0));
        if found.len() > 1 {
            match ask(&context, question, &found).await? {
                Some(chosen) => found.retain(|found| found.page == chosen),
                None => {
                    return Ok(
                        CallToolResult::error(vec![ContentBlock::text("Nobody said what is meant.")]).into()
                    );
                }
            }
        }
        let report = match found.first() {
            None => format!("Nothing was found about: {question}"),
            Some(Found { page, paragraphs }) => {
                let texts: Vec<&str> = paragraphs.iter().take(3).map(|(_, text)| text.as_str()).collect();
                format!("# {question}\n\nFrom {page}:\n\n{}", texts.join("\n\n"))
            }
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(report)]).into())
    }
}

/// The paragraphs that share words with the question, and how many.
fn about(question: &str, page: &str) -> Vec<(usize, String)> {
    let words = |text: &str| -> Vec<String> {
        let split = text.split(|letter: char| !letter.is_alphanumeric());
        split.filter(|word| word.len() > 3).map(str::to_lowercase).collect()
    };
    let wanted = words(question);
    let rated = page.split("\n\n").filter_map(|paragraph| {
        let has = words(paragraph);
        let shared = wanted.iter().filter(|word| has.contains(word)).count();
        (shared > 0).then(|| (shared, paragraph.trim().to_owned()))
    });
    let mut rated: Vec<_> = rated.collect();
    rated.sort_by_key(|(shared, _)| std::cmp::Reverse(*shared));
    rated
}

/// Asks which page is meant; `None` if nobody says.
async fn ask(
    context: &RequestContext<RoleServer>,
    question: &str,
    found: &[Found],
) -> Result<Option<String>, ErrorData> {
    let pages: Vec<&str> = found.iter().map(|found| found.page.as_str()).collect();
    let params = json!({
        "mode": "form",
        "message": format!("Several pages are about \"{question}\". Which one is meant?"),
        "requestedSchema": {"type": "object", "properties": {"page": {"type": "string", "enum": pages}}, "required": ["page"]},
    });
    let failed =
        |why: &dyn std::fmt::Display| ErrorData::internal_error(format!("the question: {why}"), None);
    let request: ElicitRequest =
        serde_json::from_value(json!({"method": "elicitation/create", "params": params}))
            .map_err(|error| failed(&error))?;
    let sent = context.peer.send_request(request.into()).await.map_err(|error| failed(&error))?;
    let answer = serde_json::to_value(sent).map_err(|error| failed(&error))?;
    Ok(answer["content"]["page"].as_str().map(str::to_owned))
}
