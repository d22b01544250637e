use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::value::RawValue;
use taskgate_client::session::{Heard, Lane, Notifications, OpenError, OpenOptions, Session};
use taskgate_client::transport::{CloseCause, CloseReason, http, stdio};
use taskgate_task::Payload;
use taskgate_wire::{ListKind, RawObject, Version, method};
use tokio::sync::watch;
use tokio::time::Instant;

use super::listening::keep_listening;
use super::{Catalog, Change, Described, State, Upstream, lane, one_tool};
use crate::policy::{Speak, UpstreamKind};

/// How long an upstream may take to list its tools when it starts.
const FIRST_LIST: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(32);
/// Only an upstream that stayed up this long counts as healthy again.
const SUSTAINED: Duration = Duration::from_secs(60);
/// From this many failures in a row on it is called a crash loop.
const LOOPING: u32 = 5;

/// Connects, waits for the end, connects again; each time after a longer pause. With a server that is another one than before
/// it begins anew. `is_news` says that nobody knows of it yet who may have asked for lists.
pub async fn keep_up(upstream: Weak<Upstream>, state: watch::Sender<State>, mut is_news: bool) {
    let Some(mut servers) = upstream.upgrade().map(|upstream| upstream.server_number.subscribe()) else {
        return;
    };
    let mut failures: u32 = 0;
    let mut opening = Opening::default();
    loop {
        let Some(strong) = upstream.upgrade() else { return };
        let since = Instant::now();
        let connected = tokio::select! {
            connected = connect(&strong, &mut opening) => connected.map_err(Down::failed),
            _ = servers.changed() => Err(Down::Replaced),
        };
        let down = match connected {
            Ok((session, catalog)) => {
                strong.shelf.put(ListKind::Tools, Arc::new(catalog));
                [ListKind::Prompts, ListKind::Resources, ListKind::Templates]
                    .into_iter()
                    .for_each(|kind| strong.shelf.expire(kind));
                let said = Described { lanes: session.lanes(), server: session.server().clone() };
                let again = strong.described.write().replace(said).is_some();
                tracing::info!(upstream = strong.name(), "up");
                // Before anybody else can listen: this stream alone begins with what was said since the session was opened.
                let heard = session.notifications();
                strong.holder.settle(&strong.spec(), session.lanes());
                state.send_replace(State::Up(session.clone()));
                strong.renew_log_level(&session);
                strong.renew_interests(&session);
                if std::mem::take(&mut is_news) {
                    strong.tell_of_lists();
                } else if again {
                    look_again(&strong, &session);
                }
                drop(strong);
                tokio::select! {
                    // A connection to a server that is replaced is stale as well, which is no failure of either.
                    biased;
                    _ = servers.changed() => Down::Replaced,
                    reason = listen(&upstream, &session, heard) => Down::of(&reason),
                }
            }
            Err(down) => {
                drop(strong);
                down
            }
        };
        let Some(strong) = upstream.upgrade() else { return };
        let replaced = match down {
            Down::Replaced => true,
            Down::Failed { why, is_there } => {
                failures = if since.elapsed() >= SUSTAINED { 1 } else { failures + 1 };
                tracing::warn!(upstream = strong.name(), failures, %why, "down");
                let text: Arc<str> = why.into();
                state.send_replace(match failures {
                    LOOPING.. => State::CrashLoop(text),
                    _ if is_there => State::Starting,
                    _ => State::Restarting(text),
                });
                drop(strong);
                // Should it lose the next session as well, there is more to it.
                if is_there && failures == 1 {
                    continue;
                }
                let pause = FIRST_PAUSE * 2u32.saturating_pow(failures - 1);
                tokio::time::timeout(pause.min(LONGEST_PAUSE), servers.changed()).await.is_ok()
            }
        };
        if replaced {
            (failures, opening, is_news) = (0, Opening::default(), true);
            state.send_replace(State::Starting);
        }
    }
}

/// Why there is no connection.
enum Down {
    /// It could not be opened, or has ended. Whether the server is there, as far as is known: one that was started anew has
    /// only lost its memory.
    Failed { why: String, is_there: bool },
    /// The configuration names another server.
    Replaced,
}

impl Down {
    fn failed(why: String) -> Self {
        Down::Failed { why, is_there: false }
    }

    fn of(reason: &CloseReason) -> Self {
        let is_there = matches!(reason.cause, CloseCause::SessionLost(_));
        Down::Failed { why: reason.to_string(), is_there }
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

impl Default for Opening {
    fn default() -> Self {
        Opening { probe: true, first: true }
    }
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
        UpstreamKind::Http(server) => {
            let link = http::connect(server)
                .map_err(|error| format!("cannot get ready for {}: {error}", server.url))?;
            (link, false)
        }
        UpstreamKind::InProcess(connect) => (connect(), true),
        UpstreamKind::Command(tool) => {
            let link = one_tool::serve(
                &tool.tool,
                tool.description.as_deref(),
                &tool.input_schema,
                tool.output_schema.as_ref(),
            );
            (link, false)
        }
        UpstreamKind::Job(tool) => {
            let link = one_tool::serve(&tool.tool, tool.description.as_deref(), &tool.input_schema, None);
            (link, false)
        }
    };
    let mut options = OpenOptions::new(crate::hosts::OWN_NAME, env!("CARGO_PKG_VERSION"));
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
    let catalog = Catalog::fetch(&session, lane(&session, true), ListKind::Tools, spec.may_host_tasks());
    // One that never lists its tools is not up, and is started again.
    let catalog = tokio::time::timeout(FIRST_LIST, catalog)
        .await
        .map_err(|_| format!("tools/list was not answered within {FIRST_LIST:?}"))?;
    Ok((session, catalog.map_err(|error| error.message)?))
}

/// Passes on what the upstream says until the connection ends, or another one is needed; returns why.
async fn listen(upstream: &Weak<Upstream>, session: &Session, mut heard: Notifications) -> CloseReason {
    let stale = session.stale();
    let subscribed = subscribe(upstream, session);
    tokio::pin!(stale, subscribed);
    loop {
        tokio::select! {
            reason = &mut stale => return reason,
            heard = heard.next() => match heard {
                Some(Heard::Notification { method, params }) => pass_on(upstream, method, params),
                // Whatever was missed, every list may have changed.
                Some(Heard::Missed(_)) => {
                    for (_, _, method) in CHANGING {
                        pass_on(upstream, method.to_owned(), None);
                    }
                }
                None => return stale.await,
            },
            () = &mut subscribed => {}
        }
    }
}

/// What has changed while the upstream was down nobody has heard, so those lists that it tells the changes of may have.
fn look_again(upstream: &Upstream, session: &Session) {
    for (feature, _, method) in CHANGING {
        let tells = |lane| session.server().of(lane).is_some_and(|said| said.offers(feature, "listChanged"));
        if session.lanes().iter().any(tells) {
            upstream.tell_of_list(method);
        }
    }
}

impl Upstream {
    /// Tells everybody to look again at the lists that it has.
    pub fn tell_of_lists(&self) {
        let described = self.described.read();
        let Some(described) = described.as_ref() else { return };
        for (feature, _, method) in CHANGING {
            if described.lanes.iter().any(|lane| described.server.has(lane, feature)) {
                self.tell_of_list(method);
            }
        }
    }

    fn tell_of_list(&self, method: &str) {
        self.tell(method.to_owned(), None, None);
    }

    /// Tells whoever listens, who may be nobody.
    pub(super) fn tell(&self, method: String, params: Option<Payload>, subscribed: Option<String>) {
        let is_private = self.is_for_one();
        let _ = self.changes.send(Change { method, params, subscribed, is_private });
    }
}

/// The lists whose changes a server may tell of: the capability, the member of a subscription's filter, the notification.
const CHANGING: [(&str, &str, &str); 3] = [
    ("tools", "toolsListChanged", method::TOOLS_CHANGED),
    ("prompts", "promptsListChanged", method::PROMPTS_CHANGED),
    ("resources", "resourcesListChanged", method::RESOURCES_CHANGED),
];

/// Passes on one thing the upstream said, and keeps in mind what it means for the lists that are known.
fn pass_on(upstream: &Weak<Upstream>, method: String, params: Option<Payload>) {
    let Some(upstream) = upstream.upgrade() else { return };
    ListKind::changed_by(&method).iter().for_each(|kind| upstream.shelf.expire(*kind));
    if method == method::TOOLS_CHANGED {
        tokio::spawn(async move {
            if let Err(error) = upstream.refresh(ListKind::Tools).await {
                tracing::warn!(upstream = upstream.name(), %error, "cannot list the tools after a change");
            }
            upstream.tell(method, params, None);
        });
    } else if method != method::LISTEN_ACKNOWLEDGED
        && method != method::CANCELLED
        // Its own tasks are nobody's here: tasks are ours, with other ids.
        && !method.starts_with(method::TASK_NOTIFICATION)
    {
        upstream.tell(method, params, None);
    }
}

/// A 2026-07-28 server only tells of changed lists on a subscription. Never returns: what it is asked along with says when
/// the connection ends.
async fn subscribe(upstream: &Weak<Upstream>, session: &Session) {
    if let lane @ Lane::Modern(_) = lane(session, true)
        && let Some(filter) = changing_lists(session, lane)
    {
        let was_open = AtomicBool::new(false);
        let heard = |method: String, params| {
            // What has changed since the subscription broke nobody has heard.
            if method == method::LISTEN_ACKNOWLEDGED && was_open.swap(true, Ordering::Relaxed) {
                told_of(session, lane).for_each(|(_, _, method)| pass_on(upstream, method.to_owned(), None));
            }
            pass_on(upstream, method, params);
        };
        let failure = keep_listening(session, lane, &filter, heard).await;
        tracing::debug!(%failure, "the subscription to changed lists has ended");
    }
    std::future::pending().await
}

/// Those of the lists whose changes the server says it tells of.
fn told_of(
    session: &Session,
    lane: Lane,
) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let offers =
        move |feature| session.server().of(lane).is_some_and(|said| said.offers(feature, "listChanged"));
    CHANGING.into_iter().filter(move |(feature, ..)| offers(feature))
}

/// The filter for the lists that the server says it tells of; `None` if there are none.
fn changing_lists(session: &Session, lane: Lane) -> Option<Payload> {
    let mut filter = RawObject::default();
    for (_, member, _) in told_of(session, lane) {
        filter.set(member, RawValue::TRUE.to_owned());
    }
    if filter.is_empty() {
        return None;
    }
    let mut params = RawObject::default();
    params.set("notifications", filter.to_raw().ok()?);
    params.to_payload().ok()
}
