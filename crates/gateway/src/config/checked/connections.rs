//! How many connections are taken, how long they may take, and whether they are encrypted.

use std::path::Path;

use toml::Spanned;

use super::{Surroundings, place};
use crate::config::fields::Entry;
use crate::config::limits::{self, DurationRange};
use crate::config::raw::{RawConnections, RawTls};
use crate::policy::{ConnectionSettings, TlsFiles};

/// The settings of connections.
pub(super) fn check(raw: &RawConnections, around: &Surroundings<'_>) -> ConnectionSettings {
    let default = ConnectionSettings::default();
    let duration = |entry: &Entry<String>, key, range: DurationRange| {
        around.parsed(entry, key, &range.allowed(), |text| range.parse(text))
    };
    let max_head = around
        .parsed(&raw.max_head, "max_head", &limits::MAX_HEAD.allowed(), |text| limits::MAX_HEAD.parse(text));
    ConnectionSettings {
        max: around.counted(&raw.max, "max", limits::MAX_CONNECTIONS).unwrap_or(default.max),
        head_timeout: duration(&raw.head_timeout, "head_timeout", limits::HEAD_TIMEOUT)
            .unwrap_or(default.head_timeout),
        body_timeout: duration(&raw.body_timeout, "body_timeout", limits::BODY_TIMEOUT)
            .unwrap_or(default.body_timeout),
        max_head: max_head.unwrap_or(default.max_head),
    }
}

/// The files of the certificate, if there is to be one.
pub(super) fn check_tls(raw: Option<&Spanned<RawTls>>, around: &Surroundings<'_>) -> Option<TlsFiles> {
    let raw = raw?;
    let path = |entry: &Entry<String>, key| {
        around.parsed(entry, key, "the path of a PEM file", |text| match text {
            "" => Err("is empty".to_owned()),
            _ if text.contains('\0') => Err("has a character that no path can have".to_owned()),
            text => place::whole(Path::new(text), around),
        })
    };
    let file = |entry: &Entry<String>, key| match entry {
        Some(_) => path(entry, key),
        None => {
            let help = "both are needed: certificate = \"cert.pem\" and key = \"key.pem\"";
            around.problems.add_with_help(raw.span(), format!("[tls] has no `{key}`"), help);
            None
        }
    };
    let (certificate, key) =
        (file(&raw.get_ref().certificate, "certificate"), file(&raw.get_ref().key, "key"));
    let client_ca = path(&raw.get_ref().client_ca, "client_ca");
    Some(TlsFiles { certificate: certificate?, key: key?, client_ca })
}
