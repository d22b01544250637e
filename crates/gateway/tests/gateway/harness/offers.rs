//! What a fake upstream has beside tools: prompts, resources, templates, completions, log messages, and methods of its own.

use serde_json::{Value, json};

use super::Board;

/// What it offers. Everything is listed `page` entries at a time.
#[derive(Clone)]
pub struct Offers {
    /// Tool definitions.
    pub tools: Vec<Value>,
    /// Prompt definitions.
    pub prompts: Vec<Value>,
    /// Resource definitions.
    pub resources: Vec<Value>,
    /// Resource templates.
    pub templates: Vec<Value>,
    /// Methods nobody else knows, answered with their params.
    pub methods: Vec<String>,
    /// How many entries a page has.
    pub page: usize,
    /// Its capabilities.
    pub capabilities: Value,
    /// Whether it has stopped answering when it is asked for a list.
    pub hangs: bool,
    /// What it says of how long its lists may be kept.
    pub hints: Option<(u64, &'static str)>,
    /// What it tells models.
    pub instructions: String,
}

impl Default for Offers {
    fn default() -> Self {
        Offers {
            tools: Vec::new(),
            prompts: vec![json!({"name": "greet"})],
            resources: Vec::new(),
            templates: Vec::new(),
            methods: Vec::new(),
            page: usize::MAX,
            hangs: false,
            hints: None,
            capabilities: json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true}}),
            instructions: "Follow the steps.".to_owned(),
        }
    }
}

impl Offers {
    /// Everything a server can have, with these prompts, resources and templates.
    pub fn all(prompts: &[&str], resources: &[&str], templates: &[&str]) -> Offers {
        let resource = |uri: &&str| json!({"uri": uri, "name": uri});
        Offers {
            prompts: prompts.iter().map(|name| json!({"name": name, "x-own": 1.0})).collect(),
            resources: resources.iter().map(resource).collect(),
            templates: templates.iter().map(|uri| json!({"uriTemplate": uri, "name": uri})).collect(),
            capabilities: json!({
                "tools": {"listChanged": true}, "prompts": {"listChanged": true}, "completions": {}, "logging": {},
                "resources": {"subscribe": true, "listChanged": true},
            }),
            ..Offers::default()
        }
    }

    /// The tools `optional`, `required` and `plain`, in a server that hosts tasks.
    pub fn hosting() -> Offers {
        let tool = |name: &str, support: &str| json!({"name": name, "inputSchema": {"type": "object"}, "execution": {"taskSupport": support}});
        let tools = [("optional", "optional"), ("required", "required"), ("plain", "forbidden")];
        Offers {
            tools: tools.map(|(name, support)| tool(name, support)).into(),
            capabilities: json!({
                "tools": {},
                "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}},
                "extensions": {"io.modelcontextprotocol/tasks": {}},
            }),
            ..Offers::default()
        }
    }

    /// The answer to a request that needs nothing but this; `None` for others.
    pub fn answer(&self, board: &Board, method: &str, params: &Value) -> Option<Result<Value, Value>> {
        let list = |member: &str, all: &[Value]| {
            let start: usize = match params["cursor"].as_str() {
                None => 0,
                Some(cursor) => match cursor.strip_prefix("from ").and_then(|from| from.parse().ok()) {
                    Some(start) => start,
                    None => return Err(json!({"code": -32602, "message": "Invalid cursor"})),
                },
            };
            let end = start.saturating_add(self.page).min(all.len());
            let mut result = json!({member: all[start..end], "x-page": start});
            if end < all.len() {
                result["nextCursor"] = json!(format!("from {end}"));
            }
            if board.era() != super::Era::Session {
                result["resultType"] = json!("complete");
            }
            if let Some((ttl, scope)) = self.hints {
                result["ttlMs"] = json!(ttl);
                result["cacheScope"] = json!(scope);
            }
            Ok(result)
        };
        let uri = params["uri"].as_str().unwrap_or_default();
        Some(match method {
            "tools/list" => list("tools", &self.tools),
            "prompts/list" => list("prompts", &self.prompts),
            "resources/list" => list("resources", &self.resources),
            "resources/templates/list" => list("resourceTemplates", &self.templates),
            "prompts/get" => {
                let name = &params["name"];
                if self.prompts.iter().any(|prompt| prompt["name"] == *name) {
                    Ok(self.finished(board, json!({"messages": [], "x-from": self.instructions})))
                } else {
                    Err(json!({"code": -32602, "message": "Unknown prompt"}))
                }
            }
            "resources/read" if self.has(uri) => {
                let contents = json!([{"uri": uri, "text": self.instructions}]);
                Ok(self.finished(board, json!({"contents": contents})))
            }
            "resources/read" => Err(self.not_found(board, uri)),
            "completion/complete" if self.capabilities.get("completions").is_some() => {
                Ok(self.finished(board, json!({"completion": {"values": [self.instructions]}})))
            }
            "logging/setLevel"
                if board.era() != super::Era::Modern && self.capabilities.get("logging").is_some() =>
            {
                Ok(json!({"x-level": params["level"]}))
            }
            _ if self.methods.iter().any(|known| known == method) => Ok(json!({"echo": params})),
            _ => return None,
        })
    }

    /// Whether it has a resource: a listed one, or one of a template, as long as its name does not begin with "no".
    pub fn has(&self, uri: &str) -> bool {
        let of_template = |template: &Value| {
            let start = template["uriTemplate"].as_str().and_then(|text| text.split('{').next());
            start
                .filter(|start| !start.is_empty())
                .is_some_and(|start| uri.strip_prefix(start).is_some_and(|rest| !rest.starts_with("no")))
        };
        self.resources.iter().any(|known| known["uri"] == uri) || self.templates.iter().any(of_template)
    }

    /// The error for a resource that does not exist, in the words of the era.
    pub fn not_found(&self, board: &Board, uri: &str) -> Value {
        let code = if board.era() == super::Era::Modern { -32602 } else { -32002 };
        json!({"code": code, "message": "Resource not found", "data": {"uri": uri}})
    }

    fn finished(&self, board: &Board, mut result: Value) -> Value {
        if board.era() == super::Era::Modern {
            result["resultType"] = json!("complete");
        }
        result
    }
}
