//! The upstream servers as they are configured at one moment, and the names that their tools and prompts have together.

use std::ops::Deref;
use std::sync::Arc;

use taskgate_wire::ListKind;

use crate::upstream::{Catalog, Known, Upstream};

/// The upstreams in the order of the configuration. A request looks once and keeps what it saw: the configuration may be
/// replaced while it is answered.
#[derive(Clone)]
pub(crate) struct Upstreams(Arc<[Arc<Upstream>]>);

impl Upstreams {
    /// These.
    pub(crate) fn new(all: Vec<Arc<Upstream>>) -> Self {
        Upstreams(all.into())
    }

    /// Whether these are those.
    pub(crate) fn is(&self, other: &Upstreams) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The one with this name.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.iter().find(|upstream| upstream.name() == name)
    }

    /// The name under which a caller sees a tool or a prompt, if it is not the upstream's own: with the configured prefix, or
    /// with the upstream's name where another upstream has the same name.
    pub(crate) fn public_name(&self, kind: ListKind, upstream: &Upstream, own: &str) -> Option<String> {
        if !kind.has_names() {
            return None;
        }
        if let Some(prefix) = &upstream.spec().prefix {
            return Some(format!("{prefix}_{own}"));
        }
        let clash = self.len() > 1
            && self.iter().any(|other| {
                other.name() != upstream.name()
                    && other.spec().prefix.is_none()
                    && other.catalog(kind).find(own).is_some()
            });
        clash.then(|| format!("{}_{own}", upstream.name()))
    }

    /// What a caller means by a name, if this upstream has it.
    pub(crate) fn find_known<'a>(
        &self,
        kind: ListKind,
        upstream: &Upstream,
        catalog: &'a Catalog,
        name: &str,
    ) -> Option<&'a Known> {
        let of = |own: &str| {
            let known = catalog.find(own)?;
            (self.public_name(kind, upstream, own).as_deref().unwrap_or(own) == name).then_some(known)
        };
        let spec = upstream.spec();
        let prefix = spec.prefix.as_deref().unwrap_or(upstream.name());
        of(name).or_else(|| of(name.strip_prefix(prefix)?.strip_prefix('_')?))
    }
}

impl Deref for Upstreams {
    type Target = [Arc<Upstream>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
