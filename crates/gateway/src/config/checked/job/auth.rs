//! Who we are for a job API.

use std::sync::Arc;

use serde_json::{Map, Value};
use taskgate_credentials::{OAuth, Secret, Tokens};
use taskgate_job::auth::Google;
use taskgate_job::{Auth, settle};
use toml::Spanned;

use crate::config::checked::{Surroundings, http};
use crate::config::raw_job::RawAuth;

/// A way to say who we are: its name, its secrets and its other settings. What ends with `?` may be left out.
type Way = (&'static str, &'static [&'static str], &'static [&'static str]);

const WAYS: [Way; 7] = [
    ("none", &[], &[]),
    ("bearer", &["token"], &[]),
    ("basic", &["password"], &["user"]),
    ("header", &["value"], &["name"]),
    ("oauth", &["client_secret"], &["token_url", "client_id", "scope?", "audience?", "client_auth?"]),
    ("google", &["key?"], &["scope?", "token_url?"]),
    ("aws", &["access_key_id?", "secret_access_key?", "session_token?"], &["region", "service"]),
];

/// Checks `auth` of a job.
pub(super) fn check(
    raw: &Spanned<RawAuth>,
    with: &Map<String, Value>,
    around: &Surroundings<'_>,
) -> Option<Auth> {
    let (span, raw) = (raw.span(), raw.get_ref());
    let Some((kind, secrets, texts)) = WAYS.iter().find(|(name, ..)| name == raw.kind.get_ref()) else {
        let names: Vec<_> = WAYS.iter().map(|(name, ..)| *name).collect();
        let what = format!("`auth`: there is no way \"{}\"", raw.kind.get_ref().escape_debug());
        around.problems.add_with_help(raw.kind.span(), what, format!("allowed: {}", names.join(", ")));
        return None;
    };
    let reader = Reader { raw, with, around };
    let mut is_whole = true;
    let known = |name: &str| secrets.iter().chain(*texts).any(|known| known.trim_end_matches('?') == name);
    let written = raw.texts.iter().map(|(name, text)| (name, text.span()));
    for (name, at) in written.chain(raw.secrets.iter().map(|(name, secret)| (name, secret.span()))) {
        if !known(name) {
            around.problems.add(at, format!("`auth.{kind}` has no setting `{name}`"));
            is_whole = false;
        }
    }
    for name in secrets.iter().filter(|name| !name.ends_with('?') && !raw.secrets.contains_key(**name)) {
        let help =
            "add { from_env = \"NAME\" } or { from_file = \"PATH\" }: a secret does not stand in this file";
        let at = raw.texts.get(*name).map_or(span.clone(), Spanned::span);
        around.problems.add_with_help(at, format!("`auth.{kind}` has no secret `{name}`"), help);
        is_whole = false;
    }
    for name in texts.iter().filter(|name| !name.ends_with('?') && !raw.texts.contains_key(**name)) {
        around.problems.add(span.clone(), format!("`auth.{kind}` has no `{name}`"));
        is_whole = false;
    }
    if !is_whole {
        return None;
    }
    match *kind {
        "bearer" => Some(Auth::Bearer(reader.secret("token")?)),
        "basic" => Some(Auth::Basic { user: reader.text("user")?, password: reader.secret("password")? }),
        "header" => Some(Auth::Header {
            name: reader.parsed("name", "the name of a header")?,
            value: reader.secret("value")?,
        }),
        "oauth" => reader.oauth(),
        "google" => reader.google().map(Auth::Google),
        #[cfg(feature = "aws")]
        "aws" => reader.aws().map(Auth::Aws),
        #[cfg(not(feature = "aws"))]
        "aws" => {
            around.problems.add(raw.kind.span(), "this taskgate was built without the feature `aws`");
            None
        }
        _ => Some(Auth::None),
    }
}

struct Reader<'a> {
    raw: &'a RawAuth,
    with: &'a Map<String, Value>,
    around: &'a Surroundings<'a>,
}

impl Reader<'_> {
    /// A setting, in which the settings of the job can stand.
    fn text(&self, name: &str) -> Option<String> {
        let text = self.raw.texts.get(name)?;
        match settle(text.get_ref(), self.with) {
            Ok(text) => Some(text),
            Err(fault) => {
                self.around.problems.add(text.span(), format!("`{name}`: {fault}"));
                None
            }
        }
    }

    fn parsed<T: std::str::FromStr>(&self, name: &str, what: &str) -> Option<T> {
        let text = self.text(name)?;
        let parsed = text.parse().ok();
        if parsed.is_none() {
            let wrong = format!("`{name}`: \"{}\" is not {what}", text.escape_debug());
            self.around.problems.add(self.raw.texts.get(name).map_or(0..0, Spanned::span), wrong);
        }
        parsed
    }

    fn secret(&self, name: &str) -> Option<Secret> {
        http::place_of(self.raw.secrets.get(name)?, name, self.around)
    }

    fn google(&self) -> Option<Google> {
        let key = match self.raw.secrets.contains_key("key") {
            true => Some(self.secret("key")?),
            false => None,
        };
        let scope = match self.raw.texts.contains_key("scope") {
            true => self.text("scope")?,
            false => "https://www.googleapis.com/auth/cloud-platform".to_owned(),
        };
        let token_url = match self.raw.texts.contains_key("token_url") {
            true => Some(self.parsed("token_url", "a URL")?),
            false => None,
        };
        Some(Google::new(key, scope, token_url))
    }

    #[cfg(feature = "aws")]
    fn aws(&self) -> Option<taskgate_job::auth::Aws> {
        let known = |name: &str| self.raw.secrets.get(name).map(|_| self.secret(name));
        let keys = match (known("access_key_id"), known("secret_access_key")) {
            (Some(id), Some(key)) => Some((id?, key?)),
            (None, None) => None,
            _ => {
                let what = "`auth.aws` has one of `access_key_id` and `secret_access_key`";
                let help = "write both, or none for those of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
                self.around.problems.add_with_help(self.raw.kind.span(), what, help);
                return None;
            }
        };
        let session_token = match known("session_token") {
            Some(token) => Some(token?),
            None => None,
        };
        let (region, service) = (self.text("region")?, self.text("service")?);
        Some(taskgate_job::auth::Aws { region, service, keys, session_token })
    }

    fn oauth(&self) -> Option<Auth> {
        let token_url = self.parsed("token_url", "a URL");
        let (client_id, secret) = (self.text("client_id"), self.secret("client_secret"));
        let in_form = self.raw.texts.get("client_auth").map(|text| {
            self.around.parsed_at(text, "client_auth", r#""basic", "body""#, |word| match word {
                "basic" => Ok(false),
                "body" => Ok(true),
                _ => Err("is none of these words".to_owned()),
            })
        });
        let oauth = OAuth {
            scope: self.text("scope"),
            audience: self.text("audience"),
            secret_in_form: in_form.unwrap_or(Some(false))?,
            ..OAuth::new(client_id?, secret?)
        };
        Some(Auth::OAuth { token_url: token_url?, tokens: Arc::new(Tokens::new(oauth)) })
    }
}
