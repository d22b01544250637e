//! Which upstream a request is for: the one that listed the prompt or the resource, or has a template for it, else all that
//! may know it, in order.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::value::{RawValue, to_raw_value};
use taskgate_task::{InvalidPayload, Payload};
use taskgate_wire::{ListKind, Params, RawObject, RpcError, method, uri_template};

use super::Request;
use crate::gateway::Gateway;
use crate::upstream::{State, Upstream, declares, lane};

/// Who may answer a request, first who most likely can.
pub struct Candidate {
    /// The upstream.
    pub upstream: Arc<Upstream>,
    /// Whether it said that this is its own: if it is down, that is the answer.
    pub certain: bool,
}

/// Where a request goes, and what changes in its params on the way: the upstream's own name for what is asked for.
pub struct Whose {
    /// Who may answer it.
    pub candidates: Vec<Candidate>,
    /// The params with that name.
    pub params: Option<Payload>,
}

impl Gateway {
    /// Who may answer this request.
    pub(crate) async fn whose(&self, request: &Request<'_>) -> Result<Whose, RpcError> {
        let broken = |error: InvalidPayload| RpcError::invalid_params(error.to_string());
        match request.method {
            method::PROMPTS_GET => {
                let name = request.params.name()?;
                let Some((upstream, own)) = self.find_prompt(&name).await? else { return Ok(self.only()) };
                let params = request.raw.filter(|_| own != name).map(|raw| rename(raw, &own));
                Ok(Whose::one(upstream, params.transpose().map_err(broken)?))
            }
            method::COMPLETE => {
                let Some(reference) = Reference::read(&request.params) else { return Ok(self.everyone()) };
                match reference {
                    Reference::Prompt(name) => {
                        let Some((upstream, own)) = self.find_prompt(&name).await? else {
                            return Ok(self.only());
                        };
                        let params =
                            request.raw.filter(|_| own != name).map(|raw| rename_reference(raw, &own));
                        Ok(Whose::one(upstream, params.transpose().map_err(broken)?))
                    }
                    Reference::Resource(uri) => Ok(self.having(&uri, "completions").await),
                }
            }
            _ if request.method.starts_with("resources/") => match request.params.uri() {
                Ok(uri) => Ok(self.having(&uri, "resources").await),
                Err(_) => Ok(self.everyone()),
            },
            _ => Ok(self.everyone()),
        }
    }

    /// The upstream and its own name for a prompt; `None` if there is nothing to choose and nothing to rename.
    async fn find_prompt(&self, name: &str) -> Result<Option<(Arc<Upstream>, String)>, RpcError> {
        if let [only] = &*self.0.upstreams {
            let Some(prefix) = &only.spec().prefix else { return Ok(None) };
            let own = name.strip_prefix(prefix.as_str()).and_then(|rest| rest.strip_prefix('_'));
            return match own {
                Some(own) => Ok(Some((only.clone(), own.to_owned()))),
                None => Err(self.unknown("prompt", name)),
            };
        }
        self.learn(ListKind::Prompts).await;
        if let Some(found) = self.look_up_prompt(name) {
            return Ok(Some(found));
        }
        // It may be new.
        join_all(self.0.upstreams.iter().map(|upstream| upstream.refresh(ListKind::Prompts))).await;
        match self.look_up_prompt(name) {
            Some(found) => Ok(Some(found)),
            None => Err(self.unknown("prompt", name)),
        }
    }

    fn look_up_prompt(&self, name: &str) -> Option<(Arc<Upstream>, String)> {
        self.0.upstreams.iter().find_map(|upstream| {
            let catalog = upstream.catalog(ListKind::Prompts);
            let known = self.find_known(ListKind::Prompts, upstream, &catalog, name)?;
            Some((upstream.clone(), known.key.clone()))
        })
    }

    /// Who may have a resource. Whoever lists it has it; templates are tried before guesses, the one that says most of
    /// the URI itself first.
    pub(super) async fn having(&self, uri: &str, feature: &str) -> Whose {
        if let [_] = &*self.0.upstreams {
            return self.only();
        }
        // At the same time: a server that does not answer costs its patience once.
        tokio::join!(self.learn(ListKind::Resources), self.learn(ListKind::Templates));
        let upstreams = &self.0.upstreams;
        let lists = |upstream: &&Arc<Upstream>| {
            // A completion names a template itself.
            [ListKind::Resources, ListKind::Templates]
                .into_iter()
                .any(|kind| upstream.catalog(kind).find(uri).is_some())
        };
        if let Some(owner) = upstreams.iter().find(lists) {
            return Whose::one(owner.clone(), None);
        }
        let fit = |upstream: &Arc<Upstream>| {
            let templates = upstream.catalog(ListKind::Templates);
            templates.entries().iter().filter_map(|known| uri_template::fit(&known.key, uri)).max()
        };
        let mut ranked: Vec<(Option<usize>, &Arc<Upstream>)> =
            upstreams.iter().map(|upstream| (fit(upstream).filter(|words| *words > 0), upstream)).collect();
        // Stable: those that fit equally well stay in the order of the configuration.
        ranked.sort_by_key(|(fit, _)| std::cmp::Reverse(*fit));
        let may_have = |fit: Option<usize>, upstream: &Upstream| match upstream.state() {
            State::Up(session) => fit.is_some() || declares(&session, lane(&session, true), feature),
            _ => true,
        };
        let candidates = ranked.into_iter().filter(|(fit, upstream)| may_have(*fit, upstream));
        let candidates = candidates
            .map(|(fit, upstream)| Candidate { upstream: upstream.clone(), certain: fit.is_some() })
            .collect();
        Whose { candidates, params: None }
    }

    async fn learn(&self, kind: ListKind) {
        join_all(self.0.upstreams.iter().map(|upstream| upstream.learn(kind))).await;
    }

    /// A single upstream is asked everything.
    fn only(&self) -> Whose {
        self.everyone()
    }

    fn everyone(&self) -> Whose {
        let certain = self.0.upstreams.len() == 1;
        let candidates = self.0.upstreams.iter();
        let candidates =
            candidates.map(|upstream| Candidate { upstream: upstream.clone(), certain }).collect();
        Whose { candidates, params: None }
    }

    /// -32602 for a name nobody lists. A server that is down may have had it, so it is named.
    pub(crate) fn unknown(&self, what: &str, name: &str) -> RpcError {
        let name: String = name.chars().take(120).collect();
        let down = self.0.upstreams.iter().filter(|upstream| !matches!(upstream.state(), State::Up(_)));
        let down: Vec<String> = down.map(|upstream| format!("{:?}", upstream.name())).collect();
        let hint =
            if down.is_empty() { String::new() } else { format!(" (not available: {})", down.join(", ")) };
        RpcError::invalid_params(format!("Unknown {what}: {name}{hint}"))
    }
}

impl Whose {
    fn one(upstream: Arc<Upstream>, params: Option<Payload>) -> Whose {
        Whose { candidates: vec![Candidate { upstream, certain: true }], params }
    }
}

/// What a `completion/complete` is about.
enum Reference<'a> {
    Prompt(Cow<'a, str>),
    Resource(Cow<'a, str>),
}

impl<'a> Reference<'a> {
    fn read(params: &Params<'a>) -> Option<Self> {
        // It has the same members as params that name a prompt or a resource.
        let named: Params<'a> = serde_json::from_str(params.reference()?.get()).ok()?;
        named.name().map(Reference::Prompt).or_else(|_| named.uri().map(Reference::Resource)).ok()
    }
}

fn rename(params: &Payload, own: &str) -> Result<Payload, InvalidPayload> {
    let mut params = RawObject::parse(params.as_str())?;
    params.set("name", to_raw_value(own)?);
    params.to_payload()
}

fn rename_reference(params: &Payload, own: &str) -> Result<Payload, InvalidPayload> {
    let mut params = RawObject::parse(params.as_str())?;
    let reference = params.get("ref").map(RawValue::get).unwrap_or("{}").to_owned();
    let mut reference = RawObject::parse(&reference)?;
    reference.set("name", to_raw_value(own)?);
    params.set("ref", reference.to_raw()?);
    params.to_payload()
}
