//! `taskgate tools`: what a server can do.

use super::connect;
use super::subject::server_of;
use crate::args::client::Of;
use crate::display::{Output, line, table};
use crate::exit_code::Failure;
use crate::follow::{failure, print};
use crate::say::say;
use serde_json::Value;

/// Lists them.
pub async fn run(args: Of) -> Result<(), Failure> {
    let target = server_of(args.endpoint.as_deref(), &args.server)?;
    let client = connect(&target, args.deadline).await?;
    let tools = client.tools().await;
    client.close().await;
    let tools = tools.map_err(|error| failure(&error))?;
    match args.output {
        Output::Json => tools.iter().try_for_each(print),
        Output::Text if tools.is_empty() => say("no tools\n"),
        Output::Text => {
            let rows = tools.iter().map(|raw| row(&serde_json::from_str(raw.as_str()).unwrap_or_default()));
            say(table(["TOOL", "ARGUMENTS", "TASK", "DESCRIPTION"], rows))
        }
    }
}

fn row(tool: &Value) -> [String; 4] {
    let text = |value: Option<&Value>| line(value.and_then(Value::as_str).unwrap_or_default());
    let task = tool.get("execution").and_then(|execution| execution.get("taskSupport"));
    [text(tool.get("name")), arguments(tool.get("inputSchema")), text(task), text(tool.get("description"))]
}

/// The arguments' names with their types; those that can be left out in brackets.
fn arguments(schema: Option<&Value>) -> String {
    let member = |name: &str| schema.and_then(|schema| schema.get(name));
    let required = member("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(properties) = member("properties").and_then(Value::as_object) else { return String::new() };
    let each = properties.iter().map(|(name, property)| {
        let kind = property.get("type").and_then(Value::as_str).unwrap_or("any");
        let argument = line(&format!("{name}={kind}"));
        if required.iter().any(|required| required == name) { argument } else { format!("[{argument}]") }
    });
    each.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_left_out_stands_in_brackets() {
        let tool = serde_json::json!({
            "name": "add", "description": "Adds.", "execution": {"taskSupport": "optional"},
            "inputSchema": {"required": ["a"], "properties": {"a": {"type": "number"}, "b": {}}}
        });
        assert_eq!(row(&tool), ["add", "a=number [b=any]", "optional", "Adds."]);
        assert_eq!(row(&Value::Null), ["", "", "", ""]);
    }
}
