//! What an upstream lists, kept for whoever looks a name up and for the time it is down.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use taskgate_client::session::{CallFailure, CallOptions, Lane, Session};
use taskgate_task::{InvalidPayload, Payload};
use taskgate_wire::tool::ToolFacts;
use taskgate_wire::{ErrorCode, ListKind, Pages, RawObject, RpcError, translate};

use super::checks::Schemas;
use super::hosted::with_tasks;

/// A list of an upstream as it was last fetched.
#[derive(Debug, Default)]
pub struct Catalog {
    entries: Vec<Known>,
    by_key: HashMap<String, usize>,
    /// How long and by whom the list may be kept: the strictest word of its pages (2026-07-28). `None` if the server has no such
    /// list.
    pub hints: Option<Hints>,
    /// Members of the pages that are not known here.
    pub others: Vec<(String, Payload)>,
}

/// Something listed.
#[derive(Debug)]
pub struct Known {
    /// What callers name it by, in the upstream's words: a name, a URI or a URI template.
    pub key: String,
    /// What a tool's definition decides here; its name there is the key.
    pub facts: Option<Arc<ToolFacts>>,
    /// The definition, untouched.
    pub definition: Payload,
    /// The schemas in it, for whoever has calls checked.
    pub schemas: Schemas,
}

/// `ttlMs` and `cacheScope`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints {
    /// How long it may be kept.
    pub ttl_ms: u64,
    /// Whether it may be shared.
    pub public: bool,
}

impl Hints {
    /// What is true of both lists together.
    pub fn and(self, other: Hints) -> Hints {
        Hints { ttl_ms: self.ttl_ms.min(other.ttl_ms), public: self.public && other.public }
    }
}

impl Catalog {
    /// Fetches all pages. A server that does not have the list has an empty one.
    ///
    /// With `tasks`, tools are asked for as a client that can have tasks: there are servers of 2026-07-28 that hide from others
    /// what is always a task.
    pub async fn fetch(
        session: &Session,
        lane: Lane,
        kind: ListKind,
        tasks: bool,
    ) -> Result<Catalog, RpcError> {
        let mut catalog = Catalog::default();
        // Tools are asked for in any case: there are servers that have some and do not say so.
        if kind != ListKind::Tools && !declares(session, lane, kind.feature()) {
            return Ok(catalog);
        }
        let mut options = CallOptions::default();
        if tasks && kind == ListKind::Tools {
            options.capabilities = Some(with_tasks(Some(session.capabilities())));
        }
        let mut pages = Pages::default();
        while let Some(answer) = fetch_page(session, lane, kind, &pages, options.clone()).await? {
            let wrong = |error: InvalidPayload| {
                RpcError::internal(format!("{} of the server: {error}", kind.method()))
            };
            let page = RawObject::parse(answer.as_str()).map_err(wrong)?;
            catalog.add_page(kind, &page).map_err(wrong)?;
            match pages.turn(&page) {
                Ok(true) => {}
                Ok(false) => break,
                // What it has listed can be used all the same.
                Err(why) => {
                    tracing::warn!(list = kind.method(), "a list of the server has no end: {why}");
                    break;
                }
            }
        }
        Ok(catalog)
    }

    /// Takes a page in.
    fn add_page(&mut self, kind: ListKind, page: &RawObject<'_>) -> Result<(), InvalidPayload> {
        let listed = page.get(kind.member()).map(RawValue::get).unwrap_or("[]");
        for definition in serde_json::from_str::<Vec<&RawValue>>(listed)? {
            self.add(kind, definition);
        }
        let hints = Hints {
            ttl_ms: page.get("ttlMs").and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or(0),
            public: page.get("cacheScope").is_some_and(|scope| scope.get() == "\"public\""),
        };
        self.hints = Some(self.hints.map_or(hints, |before| before.and(hints)));
        for (name, value) in page.iter() {
            let ours = ["resultType", "nextCursor", "ttlMs", "cacheScope", kind.member()].contains(&name);
            if !ours && !self.others.iter().any(|(known, _)| known == name) {
                self.others.push((name.to_owned(), Payload::from_raw(value)));
            }
        }
        Ok(())
    }

    fn add(&mut self, kind: ListKind, definition: &RawValue) {
        let key = RawObject::parse(definition.get())
            .ok()
            .and_then(|object| serde_json::from_str::<String>(object.get(kind.key())?.get()).ok());
        let facts = (kind == ListKind::Tools).then(|| ToolFacts::read(definition)).transpose();
        match (key, facts) {
            (Some(key), Ok(facts)) => {
                self.by_key.entry(key.clone()).or_insert(self.entries.len());
                self.entries.push(Known {
                    key,
                    facts: facts.map(Arc::new),
                    definition: Payload::from_raw(definition),
                    schemas: Schemas::default(),
                });
            }
            _ => tracing::warn!(list = kind.method(), "an upstream lists something that is none of the kind"),
        }
    }

    /// What is listed, in the upstream's order.
    pub fn entries(&self) -> &[Known] {
        &self.entries
    }

    /// What has this key.
    pub fn find(&self, key: &str) -> Option<&Known> {
        self.by_key.get(key).map(|index| &self.entries[*index])
    }
}

/// A page; `None` if the server has no such list at all.
async fn fetch_page(
    session: &Session,
    lane: Lane,
    kind: ListKind,
    pages: &Pages,
    options: CallOptions,
) -> Result<Option<Payload>, RpcError> {
    let mut params = RawObject::default();
    if let Some(cursor) = pages.cursor() {
        params.set_ref("cursor", cursor);
    }
    let params = params.to_raw().map_err(|error| RpcError::internal(error.to_string()))?;
    let call = session.call(lane, kind.method(), Some(&params), options);
    match call.outcome().await {
        Ok(answer) => Ok(Some(answer)),
        // A server without tools is a server all the same.
        Err(CallFailure::Rpc(error)) if pages.is_at_start() && is_method_not_found(&error) => Ok(None),
        Err(failure) => Err(RpcError::internal(failure.to_string())),
    }
}

/// Whether the server says that it has a feature. One of which nothing is known may have it.
pub fn declares(session: &Session, lane: Lane, feature: &str) -> bool {
    session.server().has(lane, feature)
}

/// Whether an error says that the server does not know the method: then nothing has run.
pub fn is_method_not_found(error: &Payload) -> bool {
    translate::code_of(error) == Some(ErrorCode::MethodNotFound.number().into())
}
