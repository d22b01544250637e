use std::sync::{Arc, Weak};
use std::time::Duration;

use taskgate_client::session::{CallEvent, CallOptions, Heard, Lane, OpenError, OpenOptions, Session};
use taskgate_client::transport::stdio;
use taskgate_task::Payload;
use taskgate_wire::raw::RawObject;
use taskgate_wire::{Version, meta, method};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Catalog, Change, FIRST_LIST, State, Upstream, lane};
use crate::policy::{Speak, UpstreamKind};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(32);
/// Only an upstream that stayed up this long counts as healthy again.
const SUSTAINED: Duration = Duration::from_secs(60);
/// From this many failures in a row on it is called a crash loop.
const LOOPING: u32 = 5;

/// Connects, waits for the end, connects again; each time after a longer pause.
pub async fn keep_up(upstream: Weak<Upstream>, state: watch::Sender<State>) {
    let mut failures: u32 = 0;
    let mut opening = Opening { probe: true, first: true };
    loop {
        let Some(strong) = upstream.upgrade() else { return };
        let since = Instant::now();
        let why: String = match connect(&strong, &mut opening).await {
            Ok((session, catalog)) => {
                *strong.catalog.write() = Arc::new(catalog);
                tracing::info!(upstream = strong.name(), "up");
                state.send_replace(State::Up(session.clone()));
                drop(strong);
                listen(&upstream, &session).await
            }
            Err(why) => why,
        };
        let Some(strong) = upstream.upgrade() else { return };
        failures = if since.elapsed() >= SUSTAINED { 1 } else { failures + 1 };
        tracing::warn!(upstream = strong.name(), failures, %why, "down");
        let text: Arc<str> = why.into();
        state.send_replace(if failures >= LOOPING {
            State::CrashLoop(text)
        } else {
            State::Restarting(text)
        });
        drop(strong);
        let pause = FIRST_PAUSE * 2u32.saturating_pow(failures - 1);
        tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
    }
}

/// How to begin with a server that is a process.
///
/// Some servers of before 2026-07-28 end when they are asked something before `initialize`. Such a server is started
/// again at once and not asked, but only the first time: later on each start has a pause of its own, and each failed
/// one is followed by one of the other kind.
struct Opening {
    probe: bool,
    first: bool,
}

/// Opens a connection and lists the tools: only then is the upstream up.
async fn connect(upstream: &Upstream, opening: &mut Opening) -> Result<(Session, Catalog), String> {
    let spec = upstream.spec();
    let (link, both_lanes) = match &spec.kind {
        UpstreamKind::Process(command) => {
            let link = stdio::spawn(command)
                .map_err(|error| format!("cannot start {:?}: {error}", command.program))?;
            (link, false)
        }
        UpstreamKind::InProcess(connect) => (connect(), true),
    };
    let mut options = OpenOptions::new("taskgate", env!("CARGO_PKG_VERSION"));
    // What callers cannot do is found out per call: a question nobody can answer is refused then.
    let everything = serde_json::json!({
        "elicitation": { "form": {}, "url": {} },
        "sampling": {},
        "roots": { "listChanged": true },
    });
    options.capabilities = Payload::from_value(&everything).map_err(|error| error.to_string())?;
    options.both_lanes = both_lanes && spec.speak == Speak::Auto;
    let first = std::mem::take(&mut opening.first);
    let probed = opening.probe || !matches!(spec.kind, UpstreamKind::Process(_));
    if spec.speak == Speak::Session || !probed {
        options.prefer = Version::NEWEST_WITH_SESSION;
    }
    let opened = match Session::open(link, options.clone()).await {
        Err(OpenError::ClosedOnProbe { .. }) if first && let UpstreamKind::Process(command) = &spec.kind => {
            opening.probe = false;
            options.prefer = Version::NEWEST_WITH_SESSION;
            let link = stdio::spawn(command)
                .map_err(|error| format!("cannot start {:?}: {error}", command.program))?;
            Session::open(link, options).await
        }
        opened => opened,
    };
    let session = opened.map_err(|error| {
        opening.probe = !opening.probe;
        error.to_string()
    })?;
    let catalog = Catalog::fetch(&session, lane(&session, true), FIRST_LIST).await;
    let catalog = catalog.map_err(|error| error.message)?;
    Ok((session, catalog))
}

/// Passes on what the upstream says until the connection ends; returns why it ended.
async fn listen(upstream: &Weak<Upstream>, session: &Session) -> String {
    let mut heard = session.notifications();
    let mut subscription = subscribe(session);
    let closed = session.closed();
    tokio::pin!(closed);
    loop {
        let (method, params) = tokio::select! {
            reason = &mut closed => return reason.to_string(),
            heard = heard.next() => match heard {
                Some(Heard::Notification { method, params }) => (method, params),
                // Whatever was missed, the tools may have changed.
                Some(Heard::Missed(_)) => (method::TOOLS_CHANGED.to_owned(), None),
                None => return closed.await.to_string(),
            },
            event = next_event(&mut subscription) => match event {
                CallEvent::Notification { method, params } => (method, params),
                CallEvent::Done(_) => {
                    subscription = None;
                    continue;
                }
                _ => continue,
            },
        };
        let Some(upstream) = upstream.upgrade() else { return "no longer needed".to_owned() };
        if method == method::TOOLS_CHANGED {
            let refreshed = upstream.clone();
            tokio::spawn(async move {
                if let Err(error) = refreshed.refresh_tools().await {
                    tracing::warn!(upstream = refreshed.name(), %error, "cannot list the tools after a change");
                }
                let _ = refreshed.changes.send(Change { method, params: None });
            });
            continue;
        }
        if method != method::LISTEN_ACKNOWLEDGED && method != method::CANCELLED {
            let params = params.map(|params| without_subscription(&params));
            // Nobody may be listening; that is fine.
            let _ = upstream.changes.send(Change { method, params });
        }
    }
}

/// A 2026-07-28 server only tells of changes on a subscription.
fn subscribe(session: &Session) -> Option<taskgate_client::session::PendingCall> {
    let lane @ Lane::Modern(_) = lane(session, true) else { return None };
    let capabilities = session.server().of(lane)?.capabilities.clone();
    let declares = |feature: &str| {
        RawObject::parse(capabilities.as_str())
            .ok()
            .and_then(|all| all.get(feature).map(ToOwned::to_owned))
            .and_then(|raw| RawObject::parse(raw.get()).ok()?.get("listChanged").map(|on| on.get() == "true"))
            .unwrap_or(false)
    };
    let filter = serde_json::json!({ "notifications": {
        "toolsListChanged": declares("tools"),
        "promptsListChanged": declares("prompts"),
        "resourcesListChanged": declares("resources"),
    }});
    let wanted = ["tools", "prompts", "resources"].into_iter().any(declares);
    let params = Payload::from_value(&filter).ok()?;
    wanted.then(|| session.call(lane, method::LISTEN, Some(params.as_raw()), CallOptions::default()))
}

async fn next_event(call: &mut Option<taskgate_client::session::PendingCall>) -> CallEvent {
    match call {
        Some(call) => call.next().await,
        None => std::future::pending().await,
    }
}

fn without_subscription(params: &Payload) -> Payload {
    let edited = meta::edit(Some(params), |members| {
        members.remove(meta::SUBSCRIPTION_ID);
        Ok(())
    });
    edited.unwrap_or_else(|_| params.clone())
}
