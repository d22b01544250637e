//! `subscriptions/listen`: a stream of what the caller asked to hear of (2026-07-28, subscriptions; SEP-2663).

use std::collections::{HashMap, HashSet};

use futures_util::future::join_all;
use taskgate_engine::News;
use taskgate_task::{Owner, Payload, Task, TaskId};
use taskgate_wire::dialect::d2026_07_28;
use taskgate_wire::meta::{self, SUBSCRIPTION_ID};
use taskgate_wire::{Id, Listen, Message, RpcError, method};

use super::subscribe::{MOST_SUBSCRIPTIONS, concerns};
use super::{Answer, Caller, Request, subscribe};
use crate::audit::{self, Reason, refused};
use crate::gateway::Gateway;
use crate::pool::Changes;
use crate::session::Outlet;
use crate::upstream::{Change, Interest};

/// How many ids a subscription may write down, with those that it repeats.
const MOST_NAMED: usize = 2 * MOST_SUBSCRIPTIONS;

impl Gateway {
    pub(super) async fn listen(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        asked: Listen,
        out: &Outlet,
    ) -> Answer {
        let _place = self.0.limits.stream(caller).map_err(|refusal| refusal.to_error().to_payload())?;
        let (mut seen, all) = (HashSet::new(), asked.task_ids.as_deref().unwrap_or_default());
        // In the order in which they were named.
        let named: Vec<&str> = all.iter().map(String::as_str).filter(|id| seen.insert(*id)).collect();
        if named.len() > MOST_SUBSCRIPTIONS || all.len() > MOST_NAMED {
            let text = format!("Invalid params: a subscription names at most {MOST_SUBSCRIPTIONS} tasks");
            return Err(RpcError::invalid_params(text).to_payload());
        }
        if !named.is_empty() {
            // It tells as much as a poll.
            self.0.limits.poll(caller).map_err(|refusal| refusal.to_error().to_payload())?;
        }
        let ids: Vec<TaskId> = named.iter().filter_map(|text| TaskId::parse(text).ok()).collect();
        // Followed first and read afterwards: whatever is committed from here on is either in the record that
        // is sent first, or arrives as news.
        let mut following = self.0.engine.store().feed().follow(ids.iter().copied());
        let mut changes = self.changes(caller.owner());
        let mut sent: HashMap<TaskId, u64> = HashMap::new();
        let mut first: Vec<Task> = Vec::new();
        for id in ids {
            // What is someone else's does not exist: it is left out of the acknowledgement like an unknown id.
            if let Ok(task) = self.0.engine.get(caller.owner(), id).await
                && sent.insert(id, task.version).is_none()
            {
                first.push(task);
            }
        }
        if first.len() < named.len() {
            refused(Reason::UnknownTask).await;
            self.0.limits.unknown_id(caller).await;
        }
        let (granted, _interests) = self.grant(caller.owner(), &asked).await?;
        let mut foreign = self.subscribe_foreign(caller.owner(), &asked).await;
        let granted = Listen {
            others: std::mem::take(&mut foreign.granted),
            task_ids: asked.task_ids.as_ref().map(|_| first.iter().map(|task| task.id.to_string()).collect()),
            ..granted
        };
        audit::told(first.iter().map(|task| &task.id)).await;
        let acknowledged = d2026_07_28::acknowledged(request.id, &granted)?;
        notify(out, method::LISTEN_ACKNOWLEDGED, acknowledged);
        for task in &first {
            notify(out, method::TASK_NOTIFICATION, d2026_07_28::notification(task, request.id)?);
        }
        loop {
            tokio::select! {
                news = following.next() => match news {
                    Some(News::Changed(task)) => {
                        if let Some(seen) = sent.get_mut(&task.id)
                            && task.version > *seen
                        {
                            *seen = task.version;
                            if !notify(out, method::TASK_NOTIFICATION, d2026_07_28::notification(&task, request.id)?) {
                                return ended(request.id);
                            }
                        }
                    }
                    Some(News::Deleted(_)) => {}
                    None => return ended(request.id),
                },
                Some(change) = changes.next() => {
                    if wanted(&granted, &change)
                        && !notify(out, &change.method, with_subscription(change.params.as_ref(), request.id))
                    {
                        return ended(request.id);
                    }
                }
                said = foreign.next() => match said {
                    Some((method, params)) => {
                        if !notify(out, &method, with_subscription(params.as_ref(), request.id)) {
                            return ended(request.id);
                        }
                    }
                    // The server has gone that knows what this is about. Whoever listens may listen again.
                    None => return ended(request.id),
                },
                () = self.shutting_down() => return ended(request.id),
            }
        }
    }

    /// What can be honoured of what was asked for: the lists that an upstream tells the changes of, and the resources
    /// whose upstreams confirm it. They are subscribed to for as long as the interests live.
    async fn grant(&self, owner: &Owner, asked: &Listen) -> Result<(Listen, Vec<Interest>), Payload> {
        let uris = &asked.resource_subscriptions;
        if uris.len() > MOST_SUBSCRIPTIONS {
            let text = format!("Invalid params: a subscription names at most {MOST_SUBSCRIPTIONS} resources");
            return Err(RpcError::invalid_params(text).to_payload());
        }
        let mut granted = Listen::default();
        if asked.tools_list_changed || asked.prompts_list_changed || asked.resources_list_changed {
            let said = self.describe(owner, true).await;
            let tells = |feature| said.offers(feature, "listChanged");
            granted.tools_list_changed = asked.tools_list_changed && tells("tools");
            granted.prompts_list_changed = asked.prompts_list_changed && tells("prompts");
            granted.resources_list_changed = asked.resources_list_changed && tells("resources");
        }
        let held = join_all(uris.iter().map(|uri| self.hold(owner, uri, subscribe::params(uri), true))).await;
        let mut interests = Vec::new();
        for (uri, held) in uris.iter().zip(held) {
            match held {
                Ok((interest, _)) => {
                    granted.resource_subscriptions.push(uri.clone());
                    interests.push(interest);
                }
                Err(error) => tracing::debug!(error = error.as_str(), "a resource cannot be subscribed to"),
            }
        }
        Ok((granted, interests))
    }

    /// What the upstreams say to this owner that belongs to no call, and what becomes of their lists.
    pub(crate) fn changes(&self, owner: &Owner) -> Changes {
        self.0.pool.changes(owner)
    }
}

fn wanted(granted: &Listen, change: &Change) -> bool {
    match change.method.as_str() {
        method::TOOLS_CHANGED => granted.tools_list_changed,
        method::PROMPTS_CHANGED => granted.prompts_list_changed,
        method::RESOURCES_CHANGED => granted.resources_list_changed,
        method::RESOURCE_UPDATED => {
            concerns(change, granted.resource_subscriptions.iter().map(String::as_str))
        }
        _ => false,
    }
}

/// `false` if its reader is too far behind, or gone: then the subscription has an end, so that nobody takes it for complete.
fn notify(out: &Outlet, method: &str, params: Payload) -> bool {
    out.send(Message::Notification { method: method.to_owned(), params: Some(params) })
}

fn with_subscription(params: Option<&Payload>, id: &Id) -> Payload {
    let edited = meta::edit(params, |meta| {
        meta.set(SUBSCRIPTION_ID, serde_json::value::to_raw_value(id)?);
        Ok(())
    });
    edited.unwrap_or_else(|_| Payload::null())
}

/// The answer that says the subscription ended in good order.
fn ended(id: &Id) -> Answer {
    let text = format!(r#"{{"resultType":"complete","_meta":{{"{SUBSCRIPTION_ID}":{}}}}}"#, id.as_str());
    Ok(Payload::parse(text).unwrap_or_else(|_| Payload::null()))
}
