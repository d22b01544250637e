//! What others notice of one owner's storm: `cargo bench -p taskgate-gateway --bench fairness`.
//!
//! Twenty sessions ask for a task at a steady pace. How long each answer takes is noted while nobody else does anything, and while another
//! session asks five times a millisecond; in turns, so that whatever else the machine does falls on both. What is told is the 99th hundredth
//! of both and their ratio. `TASKGATE_STORM=1` asks once a millisecond, for builds without optimization.

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use rmcp::ServerHandler;
use serde_json::{Value, json};
use taskgate_gateway::{Gateway, LimitSettings, Settings, ToolPolicy};
use tower::ServiceExt;

const WORKERS: usize = 20;
const ROUNDS: usize = 6;
const ROUND: Duration = Duration::from_secs(2);
/// How often each of them asks.
const PACE: Duration = Duration::from_millis(10);

#[derive(Clone)]
struct Empty;

impl ServerHandler for Empty {}

fn main() {
    let storm: usize = std::env::var("TASKGATE_STORM").ok().and_then(|storm| storm.parse().ok()).unwrap_or(5);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        for (name, polls) in [("owner_polls = 200", Some(200)), ("no limit", None)] {
            let limits = LimitSettings { owner_polls: polls, unknown_ids: None, ..LimitSettings::default() };
            let settings = Settings { limits, session_requests: 100_000, ..Settings::default() };
            let builder = Gateway::builder().upstream(Empty).policy(ToolPolicy::default()).settings(settings);
            let gateway = builder.build().await.expect("a gateway").router();
            let (mut quiet, mut stormy) = (Vec::new(), Vec::new());
            let greedy = open(&gateway).await;
            for _ in 0..ROUNDS {
                quiet.extend(work(&gateway).await);
                let raging = tokio::spawn(rage(gateway.clone(), greedy.clone(), storm));
                stormy.extend(work(&gateway).await);
                raging.abort();
            }
            let (quiet, stormy) = (p99(quiet), p99(stormy));
            let ratio = stormy.as_secs_f64() / quiet.as_secs_f64();
            println!("{name}: p99 {quiet:?} quiet, {stormy:?} in the storm, {ratio:.2} times as long");
        }
    });
}

/// Everybody asks at a steady pace; how long each answer took.
async fn work(gateway: &Router) -> Vec<Duration> {
    let workers = (0..WORKERS).map(|_| {
        let gateway = gateway.clone();
        tokio::spawn(async move {
            let session = open(&gateway).await;
            let (until, mut took) = (Instant::now() + ROUND, Vec::new());
            let mut pace = tokio::time::interval(PACE);
            while Instant::now() < until {
                pace.tick().await;
                let began = Instant::now();
                assert_ne!(ask(&gateway, &session).await, 429, "their own pace is within the limit");
                took.push(began.elapsed());
            }
            took
        })
    });
    let all = futures_util::future::join_all(workers.collect::<Vec<_>>()).await;
    all.into_iter().flat_map(|took| took.expect("a worker")).collect()
}

/// Asks at a pace of its own, whether it is answered or not: what a client costs that is on this machine, too, is not to be measured.
async fn rage(router: Router, session: String, storm: usize) {
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    loop {
        ticks.tick().await;
        for _ in 0..storm {
            let (router, session) = (router.clone(), session.clone());
            tokio::spawn(async move { ask(&router, &session).await });
        }
    }
}

/// Asks for a task that there is not: it is looked for like any other.
async fn ask(gateway: &Router, session: &str) -> u16 {
    let params = json!({"taskId": "0".repeat(48)});
    post(gateway, Some(session), json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": params}))
        .await
        .0
}

async fn open(gateway: &Router) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}});
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    post(gateway, None, message).await.1.expect("a session")
}

async fn post(gateway: &Router, session: Option<&str>, message: Value) -> (u16, Option<String>) {
    let mut request = Request::post("/mcp");
    if let Some(session) = session {
        request = request.header("Mcp-Session-Id", session);
    }
    let request = request.body(Body::from(message.to_string())).expect("a request");
    let Ok(response) = gateway.clone().oneshot(request).await;
    let session = response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let status = response.status().as_u16();
    let _ = axum::body::to_bytes(response.into_body(), usize::MAX).await;
    (status, session)
}

fn p99(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() * 99 / 100]
}
