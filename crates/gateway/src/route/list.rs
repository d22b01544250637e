//! Lists: a single upstream's page by page as they are, those of several upstreams as one, with what each generation wants
//! to see of tasks.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::value::{RawValue, to_raw_value};
use taskgate_client::session::{CallEvent, CallOptions, Lane};
use taskgate_task::{InvalidPayload, Outcome, Payload};
use taskgate_wire::tool::{self, TaskSupport, ToolFacts};
use taskgate_wire::{Dialect, ListKind, RawObject, RpcError};

use super::call_tool::without_tasks;
use super::cursor::Cursor;
use super::inline::Inline;
use super::{Answer, Caller, Request};
use crate::gateway::{Gateway, Target};
use crate::policy::TaskMode;
use crate::rules::Allowed;
use crate::session::Outlet;
use crate::upstream::{Catalog, Hints, Known, State, Upstream, declares, lane, with_tasks};
use crate::upstreams::Upstreams;

/// A page of a merged list has at most this many entries.
const PAGE: usize = 1000;
/// And no more than this much text, unless a single entry has.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

impl Gateway {
    pub(crate) async fn list(
        &self,
        kind: ListKind,
        caller: &Caller,
        request: &Request<'_>,
        out: &Outlet,
    ) -> Answer {
        let upstreams = self.upstreams(caller.owner()).await;
        let is_ruled = kind == ListKind::Tools;
        let allowed = is_ruled.then(|| self.0.rules.of(caller.owner(), request.arrival.identity())).flatten();
        let allowed = allowed.as_ref();
        let listed = match &*upstreams {
            [only] => self.list_one(kind, &upstreams, only, allowed, caller, request, out).await?,
            _ => {
                let merged = upstreams.list_merged(kind, allowed, caller, request).await;
                merged.map_err(|error| error.to_payload())?
            }
        };
        if kind != ListKind::Tools {
            return Ok(listed);
        }
        self.with_companions(caller, request, &upstreams, listed).await
    }

    /// A single upstream's page, relayed: its order, its cursors, its unknown members.
    #[expect(clippy::too_many_arguments, reason = "they are the request and what was found for it")]
    async fn list_one(
        &self,
        kind: ListKind,
        upstreams: &Upstreams,
        upstream: &Arc<Upstream>,
        allowed: Option<&Allowed>,
        caller: &Caller,
        request: &Request<'_>,
        out: &Outlet,
    ) -> Answer {
        let answer = self.page(kind, upstream, caller, request, out).await?;
        let untouched = kind != ListKind::Tools && !(kind.has_names() && upstream.spec().prefix.is_some());
        if untouched {
            return Ok(answer);
        }
        upstreams.edit_page(kind, upstream, allowed, caller, &answer).map_err(|error| {
            RpcError::internal(format!("{} of the server: {error}", kind.method())).to_payload()
        })
    }

    /// One page as the upstream has it, in the words of the caller's era. A list is no work: it is also answered while the
    /// gateway shuts down.
    async fn page(
        &self,
        kind: ListKind,
        upstream: &Arc<Upstream>,
        caller: &Caller,
        request: &Request<'_>,
        out: &Outlet,
    ) -> Answer {
        let session = upstream.session(caller.owner()).await.map_err(|error| error.to_payload())?;
        let mut capabilities = caller.raw_capabilities().map(|raw| without_tasks(&raw));
        // Whether or not the caller can have tasks, a tool that is one there can be called here.
        if kind == ListKind::Tools && upstream.spec().may_host_tasks() {
            capabilities = Some(with_tasks(capabilities.as_ref().or(Some(session.capabilities()))));
        }
        let owner = Some(caller.attribution(request.id));
        let options = CallOptions { owner, capabilities, client_info: None };
        let lane = lane(&session, caller.is_stateless());
        let mut call = session.call(lane, request.method, request.raw.map(Payload::as_raw), options);
        let target = Target::plain(upstream.clone());
        let inline = Inline::new(self, caller, request, &target, out);
        let outcome = loop {
            match call.next().await {
                CallEvent::Progress(raw) => inline.pass_progress(&raw),
                CallEvent::Log(raw) => inline.pass_log(raw),
                CallEvent::Done(outcome) => break outcome.map_err(super::failed),
                // Nothing is asked for a list. Let go of, the question finds the call it is meant for, or is refused.
                _ => {}
            }
        };
        let outcome = match outcome {
            Ok(body) => Outcome::Result { body, is_error: false, summary: None },
            Err(body) => Outcome::Error { body, summary: String::new() },
        };
        super::in_words_of(caller, request.method, matches!(lane, Lane::Modern(_)), inline.outcome(outcome))
    }
}

impl Upstreams {
    fn edit_page(
        &self,
        kind: ListKind,
        upstream: &Upstream,
        allowed: Option<&Allowed>,
        caller: &Caller,
        answer: &Payload,
    ) -> Result<Payload, InvalidPayload> {
        let mut page = RawObject::parse(answer.as_str())?;
        let listed = page.get(kind.member()).map(RawValue::get).unwrap_or("[]").to_owned();
        let listed: Vec<Payload> = serde_json::from_str(&listed)?;
        let edited = listed.iter().filter_map(|definition| {
            let facts = ToolFacts::read(definition.as_raw());
            if let Some(allowed) = allowed
                && !facts.as_ref().is_ok_and(|facts| allowed.has(upstream, facts))
            {
                return None;
            }
            let edited = facts.and_then(|facts| self.edit(kind, upstream, caller, &facts.name, definition));
            // One that cannot be read is passed on as it is.
            Some(edited.unwrap_or_else(|_| definition.clone()))
        });
        let edited: Vec<Payload> = edited.collect();
        page.set(kind.member(), to_raw_value(&edited)?);
        if allowed.is_some() && page.get("cacheScope").is_some() {
            // Others may use other tools.
            page.set("cacheScope", to_raw_value("private")?);
        }
        page.to_payload()
    }

    /// A definition as this caller should see it.
    fn edit(
        &self,
        kind: ListKind,
        upstream: &Upstream,
        caller: &Caller,
        own: &str,
        definition: &Payload,
    ) -> Result<Payload, InvalidPayload> {
        let name = self.public_name(kind, upstream, own);
        let name = name.as_deref();
        match kind {
            ListKind::Tools => match caller.dialect() {
                Some(Dialect::D2026_07_28) => tool::for_stateless(definition.as_raw(), name),
                Some(Dialect::D2025_11_25) => {
                    let support = match upstream.spec().policy_of(own).tasks {
                        TaskMode::Auto => TaskSupport::Optional,
                        TaskMode::Always => TaskSupport::Required,
                        TaskMode::Never => TaskSupport::Forbidden,
                    };
                    tool::for_session(definition.as_raw(), name, Some(support))
                }
                None => tool::for_session(definition.as_raw(), name, None),
            },
            ListKind::Prompts if name.is_some() => tool::renamed(definition.as_raw(), name)?.to_payload(),
            ListKind::Prompts | ListKind::Resources | ListKind::Templates => Ok(definition.clone()),
        }
    }

    /// The lists of all upstreams as one, in the order of the configuration.
    ///
    /// One dead upstream does not empty it: what it had is still listed and answers with an error.
    async fn list_merged(
        &self,
        kind: ListKind,
        allowed: Option<&Allowed>,
        caller: &Caller,
        request: &Request<'_>,
    ) -> Result<Payload, RpcError> {
        let cursor = request.params.cursor()?.map(|text| Cursor::read(&text)).transpose()?;
        let known = join_all(self.iter().map(|upstream| async {
            // Whoever turns a page wants the list it has begun with, as far as it is still known.
            if cursor.is_some() {
                upstream.learn(kind).await;
            } else {
                upstream.renew(kind).await;
            }
            upstream.catalog(kind)
        }));
        let catalogs = known.await;
        if kind != ListKind::Tools && !self.anybody_has(kind, caller, &catalogs) {
            return Err(RpcError::method_not_found(kind.method()));
        }
        let merged = self.merge(kind, allowed, &catalogs);
        let start = match cursor {
            Some(cursor) => cursor.resume(kind, merged.iter().map(|entry| &*entry.key))?,
            None => 0,
        };
        let page = Page::cut(kind, &merged, start);
        self.write(kind, allowed, caller, &catalogs, page)
            .map_err(|error| RpcError::internal(error.to_string()))
    }

    /// Whether an upstream has the feature, as far as it is known: one that is down may have it.
    fn anybody_has(&self, kind: ListKind, caller: &Caller, catalogs: &[Arc<Catalog>]) -> bool {
        self.iter().zip(catalogs).any(|(upstream, catalog)| match upstream.state() {
            State::Up(session) => {
                let lane = lane(&session, caller.is_stateless());
                declares(&session, lane, kind.feature()) || !catalog.entries().is_empty()
            }
            _ => true,
        })
    }

    /// Everything once: of two upstreams with the same URI the first one answers for it, so only that one lists it.
    fn merge<'a>(
        &self,
        kind: ListKind,
        allowed: Option<&Allowed>,
        catalogs: &'a [Arc<Catalog>],
    ) -> Vec<Entry<'a>> {
        let mut seen = HashSet::new();
        let mut merged = Vec::new();
        for (index, catalog) in catalogs.iter().enumerate() {
            for known in catalog.entries() {
                let name = self.public_name(kind, &self[index], &known.key);
                let key = name.unwrap_or_else(|| known.key.clone());
                let is_kept_back = allowed.is_some_and(|allowed| {
                    !known.facts.as_ref().is_some_and(|facts| allowed.has(&self[index], facts))
                });
                if seen.insert(key.clone()) && !is_kept_back {
                    merged.push(Entry { upstream: index, key, known });
                }
            }
        }
        merged
    }

    fn write(
        &self,
        kind: ListKind,
        allowed: Option<&Allowed>,
        caller: &Caller,
        catalogs: &[Arc<Catalog>],
        page: Page<'_>,
    ) -> Result<Payload, InvalidPayload> {
        let mut result = RawObject::default();
        if caller.is_stateless() {
            result.set("resultType", to_raw_value("complete")?);
        }
        let edited = page.entries.iter().map(|entry| {
            let upstream = &self[entry.upstream];
            let definition = &entry.known.definition;
            self.edit(kind, upstream, caller, &entry.known.key, definition)
                .unwrap_or_else(|_| definition.clone())
        });
        result.set(kind.member(), to_raw_value(&edited.collect::<Vec<Payload>>())?);
        if let Some(next) = page.next {
            result.set("nextCursor", to_raw_value(&next.write())?);
        }
        if caller.is_stateless() {
            let hints =
                catalogs.iter().filter_map(|catalog| catalog.hints).reduce(Hints::and).unwrap_or_default();
            result.set("ttlMs", to_raw_value(&hints.ttl_ms)?);
            let scope = if hints.public && allowed.is_none() { "public" } else { "private" };
            result.set("cacheScope", to_raw_value(scope)?);
        }
        // What servers say besides: of two that say the same thing, the first one.
        for (name, value) in catalogs.iter().flat_map(|catalog| &catalog.others) {
            if result.get(name).is_none() {
                result.push(name.clone(), value.as_raw().to_owned());
            }
        }
        result.to_payload()
    }
}

/// Something in a merged list, and what callers name it by.
struct Entry<'a> {
    upstream: usize,
    key: String,
    known: &'a Known,
}

struct Page<'a> {
    entries: &'a [Entry<'a>],
    next: Option<Cursor>,
}

impl<'a> Page<'a> {
    fn cut(kind: ListKind, merged: &'a [Entry<'a>], start: usize) -> Self {
        let mut bytes = 0;
        let fits = |entry: &&Entry<'_>| {
            bytes += entry.known.definition.as_str().len();
            bytes <= PAGE_BYTES
        };
        let rest = &merged[start..];
        let count = rest.iter().take(PAGE).take_while(fits).count().max(rest.len().min(1));
        let last = (count < rest.len()).then(|| start + count - 1);
        let next = last.map(|last| Cursor::behind(last, kind, &merged[last].key));
        Page { entries: &rest[..count], next }
    }
}
