//! What a valid file means. Everything here has been checked and every default has been filled in.

mod audit;
mod auth;
mod connections;
mod encryption;
mod hosts;
mod http;
mod job;
mod limits;
mod network;
mod place;
mod policy;
mod rules;
mod run;
mod server;
mod upstream;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::ops::Range;
use std::path::Path;

use taskgate_access::Rules;
use taskgate_credentials::Source;
use taskgate_reach::Reach;
use toml::Spanned;

use super::error::Problems;
use super::fields::Entry;
use super::limits::CountRange;
use super::raw::RawConfig;
use crate::policy::{Settings, StorePlace, ToolPolicy};

pub use http::UrlServer;
pub use place::parse_store_place;
pub use policy::parse_task_mode;
pub use server::check_single_user;
pub use upstream::{UpstreamConfig, UpstreamServer, check_name};

/// Where `listen` is not written: only programs on this machine can connect.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8000));

/// A valid configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the HTTP server listens.
    pub listen: SocketAddr,
    /// Where tasks are kept; `None` leaves it to the program.
    pub store: Option<StorePlace>,
    /// Where the keys are that the store is encrypted with: the first one encrypts. Empty if it is not.
    pub encryption: Vec<Source>,
    /// Where numbers for whoever watches are served, if they are.
    pub metrics: Option<SocketAddr>,
    /// Which tools callers may use; without rules all of them.
    pub rules: Option<Rules>,
    /// What URLs of others may lead to, besides addresses that everybody can reach.
    pub reach: Reach,
    /// How the server behaves.
    pub settings: Settings,
    /// How calls are treated where an upstream says nothing else.
    pub defaults: ToolPolicy,
    /// The upstream servers, at least one, in the order of the file.
    pub upstreams: Vec<UpstreamConfig>,
}

/// What a check needs besides the file.
#[derive(Clone)]
pub(super) struct Surroundings<'a> {
    /// Where relative paths begin.
    pub(super) base: &'a Path,
    /// Our own environment variables.
    pub(super) env: &'a dyn Fn(&str) -> Option<String>,
    /// Whether the file says how others reach this server.
    pub(super) has_public_url: bool,
    /// What URLs of others may lead to.
    pub(super) reach: Reach,
    /// Where problems go.
    pub(super) problems: &'a Problems,
}

/// Turns a raw file into a configuration. It is only worth something if no problem was noted.
pub(super) fn check(raw: RawConfig, around: &Surroundings<'_>) -> Config {
    let reach = network::check(&raw.network, around);
    let around = &Surroundings { reach, ..around.clone() };
    let defaults = policy::check(&raw.defaults, &ToolPolicy::default(), around);
    let listen = server::check_listen(&raw, around);
    let store = around.parsed(&raw.store, "store", place::ALLOWED, |text| place::store_place(text, around));
    if store == Some(StorePlace::Memory) {
        let upstreams = raw.upstreams.iter().flatten().map(Spanned::get_ref);
        for (span, what) in upstreams.flat_map(|upstream| {
            let run = span_of(&upstream.run).map(|span| (span, "the command of [upstream.run]"));
            run.into_iter().chain(span_of(&upstream.job).map(|span| (span, "the job of [upstream.job]")))
        }) {
            let what = format!("{what} outlives taskgate, and tasks in memory do not");
            around.problems.add_with_help(span, what, "keep tasks in a file: `store = \"PATH\"`");
        }
    }
    let settings = server::check(&raw, listen, around);
    let max_result = settings.node.max_result;
    let rules = rules::check(&raw, around);
    let upstreams = upstream::check_all(raw.upstreams.as_deref(), &defaults, max_result, around);
    let metrics = limits::check_metrics(&raw.metrics, around);
    let encryption = encryption::check(raw.encryption.as_ref(), around);
    let reach = around.reach.clone();
    Config { listen, store, encryption, metrics, rules, reach, settings, upstreams, defaults }
}

impl Surroundings<'_> {
    /// A value that can be parsed from a string. `parse` says what is wrong as the end of a sentence that begins with
    /// the string.
    fn parsed<T>(
        &self,
        entry: &Entry<String>,
        key: &str,
        allowed: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let entry = entry.as_ref()?;
        self.parsed_at(entry, key, allowed, parse)
    }

    /// A number that lies in a range.
    fn counted(&self, entry: &Entry<i64>, key: &str, range: CountRange) -> Option<usize> {
        let entry = entry.as_ref()?;
        let number = range.check(*entry.get_ref());
        if number.is_none() {
            let what = format!("`{key}`: {} is out of range", entry.get_ref());
            self.problems.add_with_help(entry.span(), what, format!("allowed: {}", range.allowed()));
        }
        number
    }

    /// [`Surroundings::parsed`] for a string that is there.
    fn parsed_at<T>(
        &self,
        entry: &Spanned<String>,
        key: &str,
        allowed: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match parse(entry.get_ref()) {
            Ok(value) => Some(value),
            Err(wrong) => {
                let what = format!("`{key}`: \"{}\" {wrong}", entry.get_ref().escape_debug());
                self.problems.add_with_help(entry.span(), what, format!("allowed: {allowed}"));
                None
            }
        }
    }
}

/// The place of a value, if it was written.
fn span_of<T>(entry: &Entry<T>) -> Option<Range<usize>> {
    entry.as_ref().map(Spanned::span)
}
