//! Where it is kept who has done what.

use std::path::Path;

use toml::Spanned;

use super::{Surroundings, place};
use crate::audit::{AuditPlace, AuditSettings, OnAuditFailure};
use crate::config::raw::audit::RawAudit;

/// The settings of the audit log, if there is to be one.
pub(super) fn check(raw: Option<&Spanned<RawAudit>>, around: &Surroundings<'_>) -> Option<AuditSettings> {
    let (span, raw) = (raw?.span(), raw?.get_ref());
    let to = match (&raw.file, &raw.stream) {
        (Some(_), None) => around.parsed(&raw.file, "file", "a path", |text| match text {
            "" => Err("is empty".to_owned()),
            _ if text.contains('\0') => Err("has a character that no path can have".to_owned()),
            text => place::whole(Path::new(text), around).map(AuditPlace::File),
        }),
        (None, Some(_)) => around.parsed(&raw.stream, "stream", r#""stdout", "stderr""#, |word| match word {
            "stdout" => Ok(AuditPlace::Stdout),
            "stderr" => Ok(AuditPlace::Stderr),
            _ => Err("is none of these words".to_owned()),
        }),
        (file, _) => {
            let what = match file {
                Some(_) => "[audit] has both a `file` and a `stream`",
                None => "[audit] has neither a `file` nor a `stream`",
            };
            let help = "one is needed: file = \"audit.jsonl\", or stream = \"stdout\" or \"stderr\"";
            around.problems.add_with_help(span, what, help);
            None
        }
    };
    let on_failure = around.parsed(&raw.on_failure, "on_failure", r#""log", "refuse""#, |word| match word {
        "log" => Ok(OnAuditFailure::Log),
        "refuse" => Ok(OnAuditFailure::Refuse),
        _ => Err("is none of these words".to_owned()),
    });
    Some(AuditSettings { to: to?, on_failure: on_failure.unwrap_or_default() })
}
