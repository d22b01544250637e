//! Answers that take long, to callers whose token ends meanwhile: whoever has no right to ask any more goes on hearing nothing.
//!
//! A call is an exception: it was allowed when it began, and to stop listening to it could be to stop it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::header;
use axum::response::Response;
use futures_util::Stream;
use tokio::time::{Instant, Sleep, timeout_at};

/// The answer, if it is there before this time; a stream ends then. `None` if nothing was there.
pub async fn until(end: Instant, answer: impl Future<Output = Response>) -> Option<Response> {
    let response = timeout_at(end, answer).await.ok()?;
    let is_stream =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    if !is_stream {
        return Some(response);
    }
    Some(response.map(|body| {
        let end = Box::pin(tokio::time::sleep_until(end));
        Body::from_stream(Ending { body: Some(body.into_data_stream()), end })
    }))
}

/// A stream of events that ends at a time. Events are sent whole, so none is cut in the middle.
struct Ending {
    /// Gone with the end, and with it whatever waits for its reader.
    body: Option<BodyDataStream>,
    end: Pin<Box<Sleep>>,
}

impl Stream for Ending {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.end.as_mut().poll(context).is_ready() {
            self.body = None;
        }
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        // A body that breaks has nothing more to give.
        Pin::new(body).poll_next(context).map(|piece| piece.and_then(Result::ok).map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use axum::http::Request;
    use futures_util::StreamExt;
    use rcgen::{CertificateParams, DnType, KeyPair};
    use serde_json::{Value, json};
    use taskgate_access::{AccessConfig, Certificates, Resource, Rights, SubjectKind};
    use taskgate_client::transport::{Inbound, memory};
    use taskgate_task::Payload;
    use taskgate_wire::Message;
    use tower::ServiceExt;

    use super::*;
    use crate::server::http::accept::ShownCertificate;
    use crate::{Gateway, Settings, ToolPolicy, UpstreamKind, UpstreamSpec};

    const LASTS: Duration = Duration::from_secs(3600);

    fn certificates() -> Certificates {
        Certificates { subject: SubjectKind::Dn, scopes: Vec::new() }
    }

    /// A caller whose right to ask ends in an hour.
    fn caller() -> ShownCertificate {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.distinguished_name.push(DnType::CommonName, "ann");
        #[expect(clippy::disallowed_methods, reason = "a certificate's end is a time of the world")]
        let end = SystemTime::now() + LASTS;
        params.not_after = end.into();
        let key = KeyPair::generate().expect("a key");
        Arc::new(certificates().read(params.self_signed(&key).expect("signed").der()))
    }

    /// A server whose one tool never answers.
    async fn serve(mut far: memory::FarEnd) {
        while let Some(message) = far.inbox.recv().await {
            let Message::Request { id, method, .. } = message else { continue };
            let result = match method.as_str() {
                "tools/call" => continue,
                "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
                _ => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "x", "version": "1"}}),
            };
            let result = Payload::from_value(&result).expect("JSON");
            let _ = far.out.send(Inbound::from(Message::Response { id, result })).await;
        }
    }

    async fn gateway() -> Gateway {
        let auth = AccessConfig {
            resource: Resource::parse("https://gate.example/mcp").expect("an address"),
            issuers: Vec::new(),
            tokens: Vec::new(),
            certificates: Some(certificates()),
            proxy: None,
            rights: Rights::default(),
            reach: Default::default(),
        };
        let server = UpstreamKind::InProcess(Arc::new(|| {
            let (link, far) = memory::pair(8);
            tokio::spawn(serve(far));
            link
        }));
        let builder = Gateway::builder().add(UpstreamSpec::new("u", server)).tool("t", ToolPolicy::always());
        builder
            .settings(Settings { auth: Some(auth), ..Settings::default() })
            .build()
            .await
            .expect("a gateway")
    }

    async fn send(gateway: &Gateway, verb: &str, headers: &[(&str, &str)], body: Value) -> Response {
        let mut request = Request::builder().method(verb).uri("/mcp").extension(caller());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let Ok(response) =
            gateway.router().oneshot(request.body(Body::from(body.to_string())).expect("one")).await;
        response
    }

    async fn text(response: Response) -> String {
        let mut body = response.into_body().into_data_stream();
        let mut text = Vec::new();
        while let Some(piece) = body.next().await {
            text.extend_from_slice(&piece.expect("a piece"));
        }
        String::from_utf8(text).expect("text")
    }

    fn modern(method: &str, mut params: Value) -> (Vec<(&str, &str)>, Value) {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        (headers, json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    }

    /// Case 36: a right that has ended is no right to go on listening, in whatever way.
    #[tokio::test(start_paused = true)]
    async fn streams_end_with_the_right_to_hear_them() {
        let gateway = gateway().await;
        let (mut headers, call) = modern("tools/call", json!({"name": "t"}));
        headers.push(("mcp-name", "t"));
        let made: Value =
            serde_json::from_str(&text(send(&gateway, "POST", &headers, call).await).await).expect("JSON");
        let task = made["result"]["taskId"].clone();
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let opened = send(&gateway, "POST", &[], body).await;
        let session = opened.headers()["mcp-session-id"].to_str().expect("an id").to_owned();
        let session = ("mcp-session-id", session.as_str());

        let (listen, filter) = modern("subscriptions/listen", json!({"notifications": {"taskIds": [task]}}));
        let result = json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/result", "params": {"taskId": task}});
        let plain = ("accept", "application/json");
        for (verb, headers, body, status) in [
            ("POST", listen, filter, 200),
            ("GET", vec![session, ("accept", "text/event-stream")], Value::Null, 200),
            ("POST", vec![session], result.clone(), 200),
            ("POST", vec![session, plain], result, 401),
        ] {
            let begun = Instant::now();
            let response = send(&gateway, verb, &headers, body.clone()).await;
            assert_eq!(response.status(), status, "{body}");
            let said = text(response).await;
            let lasted = begun.elapsed();
            assert!(lasted <= LASTS && lasted > LASTS - Duration::from_secs(60), "{lasted:?} {body} {said}");
            assert!(status == 401 || !said.contains("\"error\""), "{said}");
        }
    }
}
