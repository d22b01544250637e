//! Which upstream a request is for: the one that listed the prompt or the resource, or has a template for it, else all that
//! may know it, in order.
//!
//! Of several that list the same, the first one in the order of the configuration has it. So a list that is not current is
//! waited for only as long as it could change what is found: if its server comes before the one that was found, if nothing
//! was found, or if the server never listed its names and may have the same one, which then wants a prefix.
//!
//! A server that stays silent is waited for once (`upstream/shelf.rs`). From then on what it listed last stands for it, also
//! where it comes first, until it answers again; one that never listed anything has nothing so far. Only what nobody else
//! has is looked for there all the same: a prompt by waiting for its list once more, a resource by asking it after all
//! others.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde_json::value::{RawValue, to_raw_value};
use taskgate_task::{InvalidPayload, Payload};
use taskgate_wire::{ListKind, Params, RawObject, RpcError, method, uri_template};

use super::Request;
use crate::upstream::{State, Upstream, declares, lane};
use crate::upstreams::Upstreams;

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

impl Upstreams {
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
        if let [only] = &**self {
            let Some(prefix) = &only.spec().prefix else { return Ok(None) };
            let own = name.strip_prefix(prefix.as_str()).and_then(|rest| rest.strip_prefix('_'));
            return match own {
                Some(own) => Ok(Some((only.clone(), own.to_owned()))),
                None => Err(self.unknown(ListKind::Prompts, name)),
            };
        }
        let kinds = [ListKind::Prompts];
        let look = || self.look_up_prompt(name);
        let learned = async |upstream: &Arc<Upstream>, kind| upstream.learn(kind).await;
        let mut found = self.find(&kinds, |upstream, kind| !upstream.is_current(kind), learned, look).await;
        if found.is_none() {
            // It may be new, or a silent server's.
            let renewed = async |upstream: &Arc<Upstream>, kind| upstream.renew(kind).await;
            found = self.find(&kinds, |_, _| true, renewed, look).await;
        }
        match found {
            Some((index, own)) => Ok(Some((self[index].clone(), own))),
            None => Err(self.unknown(ListKind::Prompts, name)),
        }
    }

    fn look_up_prompt(&self, name: &str) -> Option<(usize, String)> {
        self.iter().enumerate().find_map(|(index, upstream)| {
            let catalog = upstream.catalog(ListKind::Prompts);
            let known = self.find_known(ListKind::Prompts, upstream, &catalog, name)?;
            Some((index, known.key.clone()))
        })
    }

    /// What `look` finds, and at which upstream, as soon as no list that is still to come can change it. `fetch` fetches
    /// those lists that are `wanted`, all at the same time.
    pub(crate) async fn find<T>(
        &self,
        kinds: &[ListKind],
        wanted: impl Fn(&Upstream, ListKind) -> bool,
        fetch: impl AsyncFn(&Arc<Upstream>, ListKind),
        look: impl Fn() -> Option<(usize, T)>,
    ) -> Option<(usize, T)> {
        let all = self.iter().enumerate();
        let all = all.flat_map(|(index, upstream)| kinds.iter().map(move |kind| (index, upstream, *kind)));
        let wanted: Vec<_> = all.filter(|(_, upstream, kind)| wanted(upstream, *kind)).collect();
        let mut missing: Vec<_> =
            wanted.iter().copied().filter(|(_, upstream, kind)| !upstream.is_silent(*kind)).collect();
        let fetch = &fetch;
        let coming: FuturesUnordered<_> = wanted
            .iter()
            .map(|(index, upstream, kind)| async move {
                fetch(upstream, *kind).await;
                (*index, *kind)
            })
            .collect();
        let mut coming = coming.ready_chunks(wanted.len().max(1));
        // Each fetch is begun, also those that nobody will wait for: nothing else shows that a silent server answers again.
        let mut arrived = coming.next().now_or_never().flatten().unwrap_or_default();
        loop {
            missing.retain(|(index, _, kind)| !arrived.contains(&(*index, *kind)));
            let found = look();
            let changes = |at: usize, (index, upstream, kind): &(usize, &Arc<Upstream>, ListKind)| {
                *index <= at || (kind.has_names() && !upstream.has_listed(*kind))
            };
            if let Some((at, _)) = &found
                && !missing.iter().any(|missing| changes(*at, missing))
            {
                return found;
            }
            match coming.next().await {
                Some(next) => arrived = next,
                None => return found,
            }
        }
    }

    /// Who may have a resource. Whoever lists it has it; templates are tried before guesses, the one that says most of
    /// the URI itself first.
    pub(super) async fn having(&self, uri: &str, feature: &str) -> Whose {
        if let [_] = &**self {
            return self.only();
        }
        let upstreams = self;
        let kinds = [ListKind::Resources, ListKind::Templates];
        // A completion names a template itself.
        let lists =
            |upstream: &Arc<Upstream>| kinds.iter().any(|kind| upstream.catalog(*kind).find(uri).is_some());
        let look = || upstreams.iter().position(lists).map(|index| (index, ()));
        let learned = async |upstream: &Arc<Upstream>, kind| upstream.learn(kind).await;
        let found = self.find(&kinds, |upstream, kind| !upstream.is_current(kind), learned, look).await;
        if let Some((index, ())) = found {
            return Whose::one(upstreams[index].clone(), None);
        }
        let fit = |upstream: &Arc<Upstream>| {
            let templates = upstream.catalog(ListKind::Templates);
            templates.entries().iter().filter_map(|known| uri_template::fit(&known.key, uri)).max()
        };
        let mut ranked: Vec<(Option<usize>, &Arc<Upstream>)> =
            upstreams.iter().map(|upstream| (fit(upstream).filter(|words| *words > 0), upstream)).collect();
        // Where nothing says that it is a silent server's, those that answer are asked first.
        let silent = |upstream: &Arc<Upstream>| kinds.into_iter().any(|kind| upstream.is_silent(kind));
        // Stable: those that fit equally well stay in the order of the configuration.
        ranked.sort_by_key(|(fit, upstream)| (std::cmp::Reverse(*fit), fit.is_none() && silent(upstream)));
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

    /// A single upstream is asked everything.
    fn only(&self) -> Whose {
        self.everyone()
    }

    fn everyone(&self) -> Whose {
        let certain = self.len() == 1;
        let candidates = self.iter();
        let candidates =
            candidates.map(|upstream| Candidate { upstream: upstream.clone(), certain }).collect();
        Whose { candidates, params: None }
    }

    /// -32602 for a name nobody lists. A server that is down or silent may have had it, so it is named.
    pub(crate) fn unknown(&self, kind: ListKind, name: &str) -> RpcError {
        let name: String = name.chars().take(120).collect();
        let away =
            |upstream: &&Arc<Upstream>| !matches!(upstream.state(), State::Up(_)) || upstream.is_silent(kind);
        let away = self.iter().filter(away);
        let away: Vec<String> = away.map(|upstream| format!("{:?}", upstream.name())).collect();
        let hint =
            if away.is_empty() { String::new() } else { format!(" (not available: {})", away.join(", ")) };
        let what = if kind == ListKind::Tools { "tool" } else { "prompt" };
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
