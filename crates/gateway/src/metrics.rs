//! What whoever runs this gateway may watch: numbers for Prometheus, and whether it can serve.
//!
//! It is served at an address of its own, since whoever may call tools need not know how much others call, and whoever collects numbers
//! need not be let in to the tools. No number names an owner, a task or a session: their names are nobody's business there, and there
//! would be a series for each.

use std::io;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use taskgate_engine::Tally;
use taskgate_task::Status;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::UpstreamState;
use crate::bounds::Limit;
use crate::gateway::Gateway;

/// How long the tasks that were counted are shown: counting looks at each of them.
const COUNTED_FOR: Duration = Duration::from_secs(10);
/// How long the store may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(5);
/// How the text is written.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labelled = Family<Vec<(&'static str, String)>, Gauge<i64, AtomicI64>>;

/// What serves the numbers.
#[derive(Clone)]
struct Watched {
    gateway: Gateway,
    counted: std::sync::Arc<Mutex<Option<(Instant, Tally)>>>,
}

impl Gateway {
    /// `/metrics` and `/healthz`, for an address that callers of tools need not reach.
    pub fn metrics_router(&self) -> Router {
        let watched = Watched { gateway: self.clone(), counted: std::sync::Arc::default() };
        Router::new().route("/metrics", get(metrics)).route("/healthz", get(healthz)).with_state(watched)
    }

    /// Serves them until the future is dropped.
    ///
    /// # Errors
    ///
    /// Why the listener cannot be used any more.
    pub async fn serve_metrics(&self, listener: TcpListener) -> io::Result<()> {
        axum::serve(listener, self.metrics_router()).await
    }
}

async fn metrics(State(watched): State<Watched>) -> Response {
    let tally = watched.tally().await;
    let mut text = String::new();
    match encode(&mut text, &registry(&watched.gateway, tally.as_ref())) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// 200 as long as calls can be taken; else 503, and why not.
async fn healthz(State(Watched { gateway, .. }): State<Watched>) -> Response {
    if gateway.0.engine.is_draining() || *gateway.0.shutdown.borrow() {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n").into_response();
    }
    // The cheapest question there is. Why it has no answer stands in the log: the reason may name hosts and paths.
    match tokio::time::timeout(
        PATIENCE,
        gateway.0.engine.store().due(taskgate_task::Timestamp::from_millis(0), 1),
    )
    .await
    {
        Ok(Ok(_)) => "ok\n".into_response(),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the store does not answer");
            (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n").into_response()
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer in time\n").into_response(),
    }
}

impl Watched {
    /// The tasks by status; those of a moment ago, if they were counted then.
    async fn tally(&self) -> Option<Tally> {
        let mut counted = self.counted.lock().await;
        if let Some((at, tally)) = &*counted
            && at.elapsed() < COUNTED_FOR
        {
            return Some(tally.clone());
        }
        match self.gateway.0.engine.store().tally(None).await {
            Ok(tally) => {
                *counted = Some((Instant::now(), tally.clone()));
                Some(tally)
            }
            Err(error) => {
                tracing::warn!(%error, "the tasks could not be counted");
                None
            }
        }
    }
}

/// Everything there is to see now.
fn registry(gateway: &Gateway, tally: Option<&Tally>) -> Registry {
    let mut registry = Registry::with_prefix("taskgate");
    let limits = &gateway.0.limits;
    let numbers = &limits.numbers;
    let counts = [
        ("tasks_created", "Tasks made by this node", &numbers.creates),
        ("polls", "Questions for tasks", &numbers.polls),
        ("unknown_ids", "Questions for tasks that there are not", &numbers.unknown_ids),
        ("unknown_ids_delayed", "Of those, how many were answered late", &numbers.delayed),
        ("messages_left_out", "Progress and logs left out for clients that do not read", &numbers.left_out),
    ];
    for (name, help, count) in counts {
        registry.register(name, help, count.clone());
    }
    if let Some(audit) = &gateway.0.audit {
        let state = audit.state();
        registry.register("audit_lines", "Lines of the audit log that were written", state.written.clone());
        registry.register(
            "audit_lines_lost",
            "Lines of the audit log that could not be written",
            state.lost.clone(),
        );
        let is_failing = u64::from(state.is_failing.load(std::sync::atomic::Ordering::Relaxed));
        gauge(&mut registry, "audit_failing", "Whether the audit log cannot be written now", is_failing);
    }
    let refusals =
        Family::<Vec<(&'static str, &'static str)>, prometheus_client::metrics::counter::Counter>::default();
    for (limit, count) in Limit::ALL.iter().zip(&numbers.refusals) {
        refusals.get_or_create(&vec![("limit", limit.name())]).inc_by(count.get());
    }
    registry.register("refusals", "Requests that a limit refused", refusals);
    if let Some(tally) = tally {
        let by_status = Labelled::default();
        for status in Status::ALL {
            let number = tally.by_status.iter().filter(|(is, _)| *is == status).map(|(_, count)| count).sum();
            by_status.get_or_create(&vec![("status", status.as_str().to_owned())]).set(signed(number));
        }
        registry.register("tasks", "Tasks in the store, of all nodes", by_status);
        gauge(&mut registry, "tasks_open", "Tasks that have not ended, of all nodes", tally.open());
        gauge(
            &mut registry,
            "stored_bytes",
            "Bytes of arguments, answers and results in the store",
            tally.bytes,
        );
    }
    registry.register("connections", "Connections of clients that are open", numbers.connections.clone());
    let (streams, parked) = limits.open();
    let turns = limits.turns();
    let gauges = [
        ("calls_running", "Calls of upstreams that run", turns.running()),
        ("calls_queued", "Calls that wait for their turn", turns.waiting()),
        ("tasks_carried", "Tasks that this node carries", gateway.0.engine.carried()),
        ("streams", "Streams that clients listen to", streams),
        ("calls_parked", "Calls that wait for the answers of their callers", parked),
        ("sessions", "Sessions of clients", gateway.0.sessions.len()),
    ];
    for (name, help, value) in gauges {
        gauge(&mut registry, name, help, value as u64);
    }
    let upstreams = Labelled::default();
    for (name, state) in gateway.upstream_states() {
        let labels = vec![("upstream", name), ("state", word(&state).to_owned())];
        upstreams.get_or_create(&labels).set(1);
    }
    registry.register("upstream", "Where each upstream stands", upstreams);
    registry
}

fn word(state: &UpstreamState) -> &'static str {
    match state {
        UpstreamState::Starting => "starting",
        UpstreamState::Up(_) => "up",
        UpstreamState::Restarting(_) => "restarting",
        UpstreamState::CrashLoop(_) => "crash_loop",
    }
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge = Gauge::<i64, AtomicI64>::default();
    gauge.set(signed(value));
    registry.register(name, help, gauge);
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
