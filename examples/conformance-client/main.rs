//! What the official suite's client scenarios run: a small program around the library that lists the tools of a server and
//! calls each of them. The suite says by variables what it looks at.
//!
//! `conformance client --command target/debug/examples/conformance-client --scenario NAME`
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};
use taskgate_client::transport::http::{self, ServerUrl};
use taskgate_client::{
    Answers, CallOptions, Client, HttpServer, Input, InputAnswer, InputKind, OpenOptions, Session, Version,
};
use taskgate_credentials::{OAuth, Secret};

type Failure = Box<dyn Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = std::env::args().nth(1).ok_or("conformance-client URL")?;
    let variable = |name: &str| std::env::var(format!("MCP_CONFORMANCE_{name}")).unwrap_or_default();
    let context: Value = serde_json::from_str(&variable("CONTEXT")).unwrap_or_default();
    let version = Version::from_wire(&variable("PROTOCOL_VERSION")).unwrap_or(Version::V2026_07_28);
    let server = server(&url, &context)?;
    if variable("SCENARIO") == "http-standard-headers" {
        return everything(&server, version).await;
    }
    let client = Client::builder(server).prefer(version).answers(Answers::ELICITATION);
    let client = client.input_handler(|input| async move { defaults(&input) }).connect().await?;
    let tools: Vec<Value> = client
        .tools()
        .await?
        .iter()
        .map(|tool| serde_json::from_str(tool.as_str()))
        .collect::<Result<_, _>>()?;
    let given = context["toolCalls"].as_array().cloned();
    let calls = given.unwrap_or_else(|| tools.iter().map(|tool| made_up(tool, &tools)).collect());
    for call in calls {
        let name = call["name"].as_str().unwrap_or_default();
        match client.call(name, call["arguments"].clone()).await {
            Ok(result) => println!("{name}: {}", result.text()),
            Err(error) => println!("{name}: {error}"),
        }
    }
    client.close().await;
    Ok(())
}

/// The server, and who we are there, if the suite says so.
fn server(url: &str, context: &Value) -> Result<HttpServer, Failure> {
    let server = HttpServer::new(ServerUrl::parse(url)?);
    let (Some(id), Some(secret)) = (context["client_id"].as_str(), context["client_secret"].as_str()) else {
        return Ok(server);
    };
    // Whoever has credentials knows for whom they are. The suite does not say it, so the server is asked.
    let issuer = issuer_of(server.url.as_url().authority())?;
    Ok(server.oauth_found(Some(issuer), OAuth::new(id, Secret::Text(secret.to_owned()))))
}

fn issuer_of(authority: &str) -> Result<String, Failure> {
    let mut stream = TcpStream::connect(authority)?;
    let path = "/.well-known/oauth-protected-resource/mcp";
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").ok_or("no answer")?.1;
    let said: Value = serde_json::from_str(body)?;
    Ok(said["authorization_servers"][0].as_str().ok_or("no authorization server")?.to_owned())
}

/// A form as it is where a person changes nothing.
fn defaults(input: &Input) -> InputAnswer {
    let InputKind::Form { schema, .. } = input.kind() else { return InputAnswer::Cancel };
    let fields = schema["properties"].as_object().into_iter().flatten();
    let filled: Map<_, _> =
        fields.filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone()))).collect();
    InputAnswer::Accept(Value::Object(filled))
}

/// A call of a tool with something for everything that it wants. What wants a schema gets that of the first tool.
fn made_up(tool: &Value, tools: &[Value]) -> Value {
    let fields = tool["inputSchema"]["properties"].as_object().into_iter().flatten();
    let arguments: Map<_, _> = fields
        .map(|(name, field)| {
            let value = match field["type"].as_str() {
                _ if name == "schema" => tools[0]["inputSchema"].clone(),
                Some("number" | "integer") => json!(2),
                Some("boolean") => json!(true),
                Some("object") => json!({}),
                Some("array") => json!([]),
                _ => json!("x"),
            };
            (name.clone(), value)
        })
        .collect();
    json!({ "name": tool["name"], "arguments": arguments })
}

/// One request of every kind that has a name. The library's sessions make them; its calls are of tools alone.
async fn everything(server: &HttpServer, version: Version) -> Result<(), Failure> {
    let options = OpenOptions { prefer: version, ..OpenOptions::new("conformance-client", "1") };
    let session = Session::open(http::connect(server)?, options).await?;
    let lane = session.lanes().iter().next().ok_or("no version")?;
    let ask = async |method: &str, params: Value| -> Result<Value, Failure> {
        let params = to_raw_value(&params)?;
        let answer = session.call(lane, method, Some(&params), CallOptions::default()).outcome().await?;
        Ok(serde_json::from_str(answer.as_str())?)
    };
    let tools = ask("tools/list", json!({})).await?;
    let first = &tools["tools"][0];
    ask("tools/call", made_up(first, std::slice::from_ref(first))).await?;
    let resources = ask("resources/list", json!({})).await?;
    ask("resources/read", json!({ "uri": resources["resources"][0]["uri"] })).await?;
    let prompts = ask("prompts/list", json!({})).await?;
    ask("prompts/get", json!({ "name": prompts["prompts"][0]["name"] })).await?;
    session.close().await;
    Ok(())
}
