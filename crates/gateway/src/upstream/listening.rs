//! A subscription to a server of 2026-07-28 that lasts as long as the connection.

use std::time::Duration;

use taskgate_client::session::{CallEvent, CallFailure, CallOptions, Lane, Session};
use taskgate_task::Payload;
use taskgate_wire::{RawObject, meta, method};
use tokio::time::Instant;

/// A subscription that the server ends is opened again after a pause, which grows up to the second of these.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Subscribes and passes on everything that arrives, without the subscription's id. Returns when the server refuses or the
/// connection has ended; dropping it ends the subscription.
pub async fn keep_listening(
    session: &Session,
    lane: Lane,
    filter: &Payload,
    heard: impl Fn(String, Option<Payload>),
) -> CallFailure {
    let mut pause = PAUSES.0;
    let mut was_open = false;
    loop {
        let since = Instant::now();
        let mut call = session.call(lane, method::LISTEN, Some(filter.as_raw()), CallOptions::default());
        let mut confirmed = false;
        let ended = loop {
            match call.next().await {
                CallEvent::Notification { method, params } => {
                    confirmed |= method == method::LISTEN_ACKNOWLEDGED;
                    was_open |= confirmed;
                    heard(method, params.map(|params| without_subscription(&params)));
                }
                CallEvent::Done(ended) => break ended,
                _ => {}
            }
        };
        match ended {
            Err(failure @ (CallFailure::Closed(_) | CallFailure::Params(_) | CallFailure::Taken)) => {
                return failure;
            }
            Err(CallFailure::Request(failure)) if failure.is_of_connection() => {
                return CallFailure::Request(failure);
            }
            // What stands between us and a server comes and goes.
            Err(CallFailure::Request(_)) if was_open => {}
            Err(failure) if !confirmed => return failure,
            _ => {}
        }
        // One that lasted was a good one, whatever there was before.
        if since.elapsed() >= PAUSES.1 {
            pause = PAUSES.0;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Whether an acknowledgement honours the subscription to a resource.
pub fn names_resource(acknowledged: &Payload, uri: &str) -> bool {
    let granted = || {
        let params = RawObject::parse(acknowledged.as_str()).ok()?;
        let filter = RawObject::parse(params.get("notifications")?.get()).ok()?;
        serde_json::from_str::<Vec<String>>(filter.get("resourceSubscriptions")?.get()).ok()
    };
    granted().is_some_and(|granted| granted.iter().any(|granted| granted == uri))
}

/// The params of a notification without the id of the subscription it came by.
fn without_subscription(params: &Payload) -> Payload {
    let edited = meta::edit(Some(params), |members| {
        members.remove(meta::SUBSCRIPTION_ID);
        Ok(())
    });
    edited.unwrap_or_else(|_| params.clone())
}
