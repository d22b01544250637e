//! `[upstream.job]` exactly as it was written, laid over the preset it names.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Problems;
use super::fields::{Entry, Fields, FromValue, Section, with_article};
use super::nearest::nearest;
use super::raw::http::RawSecret;
use super::raw::{RUN, UPSTREAM};
use crate::upstream::presets::{self, Preset};

/// The keys of `[upstream.job]`.
pub(super) const JOB: Section = Section {
    name: "[upstream.job]",
    keys: &[
        "tool",
        "description",
        "input_schema",
        "preset",
        "with",
        "auth",
        "ca_file",
        "start",
        "status",
        "detail",
        "result",
        "failure",
        "cancel",
        "logs",
        "question",
        "answer",
    ],
};

/// The keys of each part of `[upstream.job]` that is a request, or reads one.
pub(super) const PARTS: [Section; 9] = [
    Section {
        name: "[upstream.job.start]",
        keys: &[
            "method",
            "url",
            "headers",
            "body",
            "timeout",
            "ok",
            "retry_if",
            "job",
            "idempotent",
            "exists",
            "exists_if",
            "exists_job",
        ],
    },
    Section {
        name: "[upstream.job.status]",
        keys: &[
            "method", "url", "headers", "body", "timeout", "ok", "retry_if", "state", "states", "message",
            "progress", "total", "error", "poll", "poll_max",
        ],
    },
    Section {
        name: "[upstream.job.detail]",
        keys: &["method", "url", "headers", "body", "timeout", "ok", "retry_if", "when"],
    },
    Section {
        name: "[upstream.job.result]",
        keys: &["method", "url", "headers", "body", "timeout", "ok", "retry_if", "value"],
    },
    Section {
        name: "[upstream.job.failure]",
        keys: &["method", "url", "headers", "body", "timeout", "ok", "retry_if", "value"],
    },
    Section {
        name: "[upstream.job.cancel]",
        keys: &["method", "url", "headers", "body", "timeout", "ok", "retry_if", "gone", "gone_if"],
    },
    Section {
        name: "[upstream.job.logs]",
        keys: &["method", "url", "headers", "body", "timeout", "ok", "retry_if", "lines"],
    },
    Section { name: "[upstream.job.question]", keys: &["key", "message", "schema"] },
    Section {
        name: "[upstream.job.answer]",
        keys: &["method", "url", "headers", "body", "timeout", "ok", "retry_if"],
    },
];

/// Keys whose tables are taken as a whole: what the preset has in them is not mixed with what is written.
const WHOLE: [&str; 2] = ["input_schema", "auth"];

/// A job API.
#[derive(Debug)]
pub(super) struct RawJob {
    pub(super) tool: Entry<String>,
    pub(super) description: Entry<String>,
    pub(super) input_schema: Entry<Map<String, Value>>,
    pub(super) preset: Option<(Range<usize>, &'static Preset)>,
    pub(super) with: Map<String, Value>,
    pub(super) auth: Entry<RawAuth>,
    pub(super) ca_file: Entry<String>,
    pub(super) start: Entry<RawPart>,
    pub(super) status: Entry<RawPart>,
    pub(super) detail: Entry<RawPart>,
    pub(super) result: Entry<RawPart>,
    pub(super) failure: Entry<RawPart>,
    pub(super) cancel: Entry<RawPart>,
    pub(super) logs: Entry<RawPart>,
    pub(super) question: Entry<RawPart>,
    pub(super) answer: Entry<RawPart>,
    /// Keys that are there, even if their values could not be read.
    pub(super) written: Vec<String>,
    /// All of it, for whoever wants to see it whole.
    pub(super) whole: Map<String, Value>,
}

/// A part of it: a request, and what is read in its answer.
#[derive(Debug, Default)]
pub(super) struct RawPart {
    pub(super) texts: BTreeMap<&'static str, Spanned<String>>,
    pub(super) tables: BTreeMap<&'static str, RawTexts>,
    pub(super) codes: BTreeMap<&'static str, Spanned<Vec<Spanned<i64>>>>,
    pub(super) idempotent: Entry<bool>,
    /// Keys that are there, even if their values could not be read.
    pub(super) written: Vec<String>,
}

/// Names and their texts, in the order of the file.
pub(super) type RawTexts = Vec<(Spanned<String>, Spanned<String>)>;

/// Who we are: one way, and its settings.
#[derive(Debug)]
pub(super) struct RawAuth {
    pub(super) kind: Spanned<String>,
    pub(super) texts: BTreeMap<String, Spanned<String>>,
    pub(super) secrets: BTreeMap<String, Spanned<RawSecret>>,
}

impl<'a, 'i> FromValue<'a, 'i> for RawJob {
    const WHAT: &'static str = "a table";

    fn read(value: &'a DeValue<'i>, _: &'static str, problems: &Problems) -> Option<Self> {
        let own = value.as_table()?;
        let preset = own.get("preset").and_then(|name| {
            let text = name.get_ref().as_str()?;
            let found = presets::find(text);
            if found.is_none() {
                let names: Vec<&str> = presets::ALL.iter().map(|preset| preset.name).collect();
                let help = match nearest(text, &names) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("allowed: {}", names.join(", ")),
                };
                let what = format!("`preset`: there is no preset \"{}\"", text.escape_debug());
                problems.add_with_help(name.span(), what, help);
            }
            Some((name.span(), found?))
        });
        let merged = match &preset {
            Some((at, preset)) => over(own, &preset.table(), at),
            None => own.clone(),
        };
        let fields = Fields::new(&merged, &JOB, &[&RUN, &UPSTREAM, &PARTS[0], &PARTS[1]], problems);
        // What is wrong with its type is noted by whoever reads it.
        let _: Entry<String> = fields.get("preset");
        let [start, status, detail, result, failure, cancel, logs, question, answer] = &PARTS;
        let part = |key, section| {
            let table: Entry<&DeTable<'_>> = fields.get(key);
            table.map(|table| Spanned::new(table.span(), RawPart::read(table.get_ref(), section, problems)))
        };
        // Whatever is wrong with a value is noted by whoever reads it. What the preset says is in it.
        let mut whole = super::json::object(&merged, "job", &Problems::default());
        whole.shift_remove("preset");
        let job = RawJob {
            tool: fields.get("tool"),
            description: fields.get("description"),
            input_schema: fields.get("input_schema"),
            with: fields.get("with").map(Spanned::into_inner).unwrap_or_default(),
            auth: fields.get("auth"),
            ca_file: fields.get("ca_file"),
            start: part("start", start),
            status: part("status", status),
            detail: part("detail", detail),
            result: part("result", result),
            failure: part("failure", failure),
            cancel: part("cancel", cancel),
            logs: part("logs", logs),
            question: part("question", question),
            answer: part("answer", answer),
            written: merged.keys().map(|key| key.get_ref().to_string()).collect(),
            whole,
            preset,
        };
        Some(job)
    }
}

/// What is written, over a preset. Values of the preset count as written where it is named.
fn over<'i>(own: &DeTable<'i>, preset: &DeTable<'static>, at: &Range<usize>) -> DeTable<'i> {
    let mut merged = DeTable::new();
    for (key, value) in preset.iter() {
        let theirs = placed(value.get_ref(), at);
        let value = match (own.get(key.get_ref().as_ref()), theirs) {
            (None, theirs) => Spanned::new(at.clone(), theirs),
            (Some(ours), DeValue::Table(theirs))
                if !WHOLE.contains(&key.get_ref().as_ref())
                    && let DeValue::Table(written) = ours.get_ref() =>
            {
                Spanned::new(ours.span(), DeValue::Table(over(written, &theirs, at)))
            }
            (Some(ours), _) => ours.clone(),
        };
        merged.insert(Spanned::new(at.clone(), key.get_ref().clone()), value);
    }
    for (key, value) in own.iter().filter(|(key, _)| preset.get(key.get_ref().as_ref()).is_none()) {
        merged.insert(key.clone(), value.clone());
    }
    merged
}

/// A value of a preset, at the place where the preset is named.
fn placed(value: &DeValue<'static>, at: &Range<usize>) -> DeValue<'static> {
    let spanned = |value: &Spanned<DeValue<'static>>| Spanned::new(at.clone(), placed(value.get_ref(), at));
    match value {
        DeValue::Table(table) => {
            let mut moved = DeTable::new();
            for (key, value) in table.iter() {
                moved.insert(Spanned::new(at.clone(), key.get_ref().clone()), spanned(value));
            }
            DeValue::Table(moved)
        }
        DeValue::Array(items) => DeValue::Array(items.iter().map(spanned).collect()),
        plain => plain.clone(),
    }
}

impl RawPart {
    fn read(table: &DeTable<'_>, section: &'static Section, problems: &Problems) -> RawPart {
        let fields = Fields::new(table, section, &[&JOB], problems);
        let mut part = RawPart {
            written: table.keys().map(|key| key.get_ref().to_string()).collect(),
            ..RawPart::default()
        };
        for key in section.keys {
            match *key {
                "headers" | "states" | "job" | "exists_job" => {
                    if let Some(texts) = fields.get::<RawTexts>(key) {
                        part.tables.insert(key, texts.into_inner());
                    }
                }
                "ok" | "exists" | "gone" => {
                    part.codes.extend(fields.get(key).map(|codes| (*key, codes)));
                }
                "idempotent" => part.idempotent = fields.get(key),
                _ => part.texts.extend(fields.get(key).map(|text| (*key, text))),
            }
        }
        part
    }

    /// Whether the key is there, with whatever value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.written.iter().any(|written| written == key)
    }
}

impl<'a, 'i> FromValue<'a, 'i> for RawTexts {
    const WHAT: &'static str = "a table of strings";

    fn read(value: &'a DeValue<'i>, key: &'static str, problems: &Problems) -> Option<Self> {
        let mut texts = Vec::new();
        for (name, value) in value.as_table()?.iter() {
            match value.get_ref().as_str() {
                Some(text) => {
                    let name = Spanned::new(name.span(), name.get_ref().to_string());
                    texts.push((name, Spanned::new(value.span(), text.to_owned())));
                }
                None => {
                    let found = with_article(value.get_ref().type_str());
                    let what = format!("`{key}.{}` must be a string, not {found}", name.get_ref());
                    problems.add(value.span(), what);
                }
            }
        }
        Some(texts)
    }
}

impl<'a, 'i> FromValue<'a, 'i> for RawAuth {
    const WHAT: &'static str = "a table with one key, such as { bearer = { from_env = \"TOKEN\" } }";

    fn read(value: &'a DeValue<'i>, _: &'static str, problems: &Problems) -> Option<Self> {
        let table = value.as_table().filter(|table| table.len() == 1)?;
        let (kind, settings) = table.iter().next()?;
        let mut auth = RawAuth {
            kind: Spanned::new(kind.span(), kind.get_ref().to_string()),
            texts: BTreeMap::new(),
            secrets: BTreeMap::new(),
        };
        let Some(settings_table) = settings.get_ref().as_table() else {
            let found = with_article(settings.get_ref().type_str());
            problems.add(settings.span(), format!("`auth.{}` must be a table, not {found}", kind.get_ref()));
            return Some(auth);
        };
        // A bearer is nothing but its secret.
        if kind.get_ref() == "bearer" {
            auth.put("token", settings, problems);
            return Some(auth);
        }
        for (name, value) in settings_table.iter() {
            auth.put(name.get_ref(), value, problems);
        }
        Some(auth)
    }
}

impl RawAuth {
    fn put(&mut self, name: &str, value: &Spanned<DeValue<'_>>, problems: &Problems) {
        match value.get_ref() {
            DeValue::String(text) => {
                self.texts.insert(name.to_owned(), Spanned::new(value.span(), text.to_string()));
            }
            DeValue::Table(_) => match RawSecret::read(value.get_ref(), "auth", problems) {
                Some(secret) => {
                    self.secrets.insert(name.to_owned(), Spanned::new(value.span(), secret));
                }
                None => {
                    let help = "allowed: { from_env = \"NAME\" } or { from_file = \"PATH\" }";
                    let what = format!("`{name}` does not say where its secret is");
                    problems.add_with_help(value.span(), what, help);
                }
            },
            other => {
                let found = with_article(other.type_str());
                problems.add(value.span(), format!("`{name}` must be a string or a secret, not {found}"));
            }
        }
    }
}
