//! What must not be seen is taken out of texts: by its value where that is known, and by its name where a text names it.
//!
//! Whatever reads a secret says so here, and whatever shows a text of others asks here first: the log of the process, and everybody who
//! puts what a server or an API has said into words of ours. A value is known as it is, and as URLs, JSON and base64 have it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use parking_lot::RwLock;
use regex::Regex;

/// What stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";

/// The shortest value that is looked for, in bytes. Shorter ones are parts of ordinary words and numbers.
pub const SHORTEST: usize = 4;

/// The shortest line of a secret of several lines that is looked for by itself.
const SHORTEST_LINE: usize = 16;

/// Takes some values out of texts.
#[derive(Debug, Clone, Default)]
pub struct Redactor(Look);

#[derive(Debug, Clone, Default)]
enum Look {
    /// For nothing.
    #[default]
    Nowhere,
    /// For these values.
    For(Arc<AhoCorasick>),
    /// What to look for is not known, so nothing is shown.
    Everywhere,
}

impl Redactor {
    /// For these values. Those that are too short are passed over.
    pub fn of<'v>(values: impl IntoIterator<Item = &'v str>) -> Redactor {
        let patterns: BTreeSet<String> = values.into_iter().flat_map(spellings).collect();
        if patterns.is_empty() {
            return Redactor(Look::Nowhere);
        }
        // The longest first: a secret may begin with another one.
        let mut builder = AhoCorasick::builder();
        // The other kinds are faster to look with, and take quadratic time and much memory to be made of what callers choose.
        builder.match_kind(MatchKind::LeftmostLongest).kind(Some(AhoCorasickKind::NoncontiguousNFA));
        match builder.build(&patterns) {
            Ok(built) => Redactor(Look::For(Arc::new(built))),
            Err(_) => Redactor(Look::Everywhere),
        }
    }

    /// Whether there is nothing to take out.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Look::Nowhere)
    }

    /// The text without them.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let values = match &self.0 {
            Look::For(values) if values.is_match(text) => values,
            Look::For(_) | Look::Nowhere => return Cow::Borrowed(text),
            Look::Everywhere => return Cow::Borrowed(REDACTED),
        };
        let mut clean = String::with_capacity(text.len());
        values.replace_all_with(text, &mut clean, |_, _, clean| {
            clean.push_str(REDACTED);
            true
        });
        Cow::Owned(clean)
    }
}

/// What is known in this process.
struct Table {
    for_good: BTreeSet<String>,
    for_now: BTreeMap<u64, Vec<String>>,
    next: u64,
    /// Counts the changes.
    changes: u64,
    /// Made when they are first needed after a change.
    good: Option<Redactor>,
    all: Option<Redactor>,
}

static KNOWN: RwLock<Table> = RwLock::new(Table {
    for_good: BTreeSet::new(),
    for_now: BTreeMap::new(),
    next: 0,
    changes: 0,
    good: None,
    all: None,
});

/// Says that this must not be seen as long as this process lives.
pub fn know(secret: &str) {
    let secret = secret.trim();
    if secret.len() < SHORTEST || KNOWN.read().for_good.contains(secret) {
        return;
    }
    let mut known = KNOWN.write();
    known.for_good.insert(secret.to_owned());
    known.changes += 1;
    (known.good, known.all) = (None, None);
}

/// Says that these must not be seen in the log as long as what is returned exists.
pub fn know_for_now(secrets: Vec<String>) -> KnownForNow {
    let mut known = KNOWN.write();
    let number = known.next;
    known.next += 1;
    known.for_now.insert(number, secrets);
    known.changes += 1;
    known.all = None;
    KnownForNow(number)
}

/// Secrets that are known for as long as this exists.
#[derive(Debug)]
pub struct KnownForNow(u64);

impl Drop for KnownForNow {
    fn drop(&mut self) {
        let mut known = KNOWN.write();
        known.for_now.remove(&self.0);
        known.changes += 1;
        known.all = None;
    }
}

/// Made of what is known now, beside the lock: others write their logs meanwhile.
fn of_table(is_made: fn(&mut Table) -> &mut Option<Redactor>, values: fn(&Table) -> Vec<String>) -> Redactor {
    let (changes, values) = {
        let known = KNOWN.read();
        (known.changes, values(&known))
    };
    let redactor = Redactor::of(values.iter().map(String::as_str));
    let mut known = KNOWN.write();
    if known.changes == changes {
        *is_made(&mut known) = Some(redactor.clone());
    }
    redactor
}

/// A text that others may see, without anything that is known for good.
pub fn redact(text: &str) -> Cow<'_, str> {
    if let Some(redactor) = &KNOWN.read().good {
        return redactor.redact(text);
    }
    of_table(|known| &mut known.good, |known| known.for_good.iter().cloned().collect()).redact(text)
}

/// A line of a log, without anything that is known, and without what its own text calls a secret.
pub fn redact_line(text: &str) -> String {
    let made = KNOWN.read().all.clone();
    let redactor = made.unwrap_or_else(|| {
        let values = |known: &Table| {
            let for_now = known.for_now.values().flatten();
            known.for_good.iter().chain(for_now).cloned().collect()
        };
        of_table(|known| &mut known.all, values)
    });
    by_name(&redactor.redact(text)).into_owned()
}

/// The ways in which a value may stand in a text.
fn spellings(value: &str) -> Vec<String> {
    if value.len() < SHORTEST {
        return Vec::new();
    }
    let mut all = vec![value.to_owned()];
    let json = serde_json::to_string(value).unwrap_or_default();
    all.extend(json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).map(str::to_owned));
    all.extend(ESCAPES.map(|escapes| in_json(value, escapes)));
    all.push(form_urlencoded::byte_serialize(value.as_bytes()).collect());
    let percent = value.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    all.push(percent.collect());
    all.extend(in_base64(value.as_bytes()));
    // Of a key in PEM one line is as good as all.
    all.extend(value.lines().filter(|line| line.len() >= SHORTEST_LINE).map(str::to_owned));
    all.retain(|spelling| spelling.len() >= SHORTEST);
    all
}

/// What writers of JSON escape besides what must be: characters that are not ASCII, with small or large digits, those that mean
/// something in HTML, and the slash.
#[derive(Clone, Copy)]
struct Escapes {
    wide: bool,
    large: bool,
    html: bool,
    slash: bool,
}

/// As Python does it, PHP, PHP with `JSON_UNESCAPED_UNICODE`, .NET, and Go with what it does for HTML.
const ESCAPES: [Escapes; 5] = [
    Escapes { wide: true, large: false, html: false, slash: false },
    Escapes { wide: true, large: false, html: false, slash: true },
    Escapes { wide: false, large: false, html: false, slash: true },
    Escapes { wide: true, large: true, html: true, slash: false },
    Escapes { wide: false, large: false, html: true, slash: false },
];

fn in_json(value: &str, escapes: Escapes) -> String {
    let mut text = String::with_capacity(value.len());
    let unit = |unit: u16| if escapes.large { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") };
    for c in value.chars() {
        match c {
            '"' if escapes.large => text += &unit(0x22),
            '"' => text += "\\\"",
            '\\' => text += "\\\\",
            '\n' => text += "\\n",
            '\r' => text += "\\r",
            '\t' => text += "\\t",
            '\u{8}' => text += "\\b",
            '\u{c}' => text += "\\f",
            '/' if escapes.slash => text += "\\/",
            // Go leaves the plus and the apostrophe as they are.
            '<' | '>' | '&' if escapes.html => text += &unit(c as u16),
            '+' | '\'' | '`' if escapes.html && escapes.large => text += &unit(c as u16),
            c if c.is_ascii_control() || (escapes.wide && !c.is_ascii()) => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|part| text += &unit(*part));
            }
            c => text.push(c),
        }
    }
    text
}

/// What a value is in base64 wherever it stands in what is encoded: of the three ways in which it can lie there, the digits that do not
/// depend on what lies around it.
fn in_base64(value: &[u8]) -> impl Iterator<Item = String> {
    (0..3).flat_map(move |before| {
        let mut around = vec![0; before];
        around.extend_from_slice(value);
        // The digits that hold bits of the bytes before, and of those behind.
        let skipped = (before * 8).div_ceil(6);
        let whole = around.len() * 8 / 6;
        [STANDARD_NO_PAD.encode(&around), URL_SAFE_NO_PAD.encode(&around)].into_iter().filter_map(
            move |text| {
                let digits = text.get(skipped..whole)?;
                // A few digits stand in any text by chance.
                (digits.len() >= 8).then(|| digits.to_owned())
            },
        )
    })
}

/// What a text itself calls a secret: headers, members of JSON, parameters of URLs and fields of the log. A terminal's colours may lie between.
fn by_name(text: &str) -> Cow<'_, str> {
    static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let colour = r"(?:\x1b\[[0-9;]*m)*";
        let word = r"(?:token|secret|password|passwd|api[_-]?key|authorization|cookie|credentials?)";
        let quoted = r#"(?:"(?:[^"\\]|\\.)*"|\\"(?:\\\\\\"|[^"\\]|\\[^"])*\\")"#;
        let header = format!(
            r"(?:(?:proxy-)?authorization|(?:set-)?cookie|x-api-key){colour}\s*:\s*(?:bearer\s+|basic\s+)?"
        );
        let member = format!(r#"\\?"[\w.-]*{word}[\w.-]*\\?"\s*:\s*"#);
        let field = format!(r"[\w.-]*{word}{colour}={colour}(?:bearer\s+|basic\s+)?");
        let scheme = r"\b(?:bearer|basic)\s+";
        let value = format!(r#"(?:{quoted}|[^\s,;&"'\\}}\])]+)"#);
        Regex::new(&format!(r"(?i)(?<name>{header}|{member}|{field}|{scheme})(?:{value})")).ok()
    });
    match &*NAMED {
        Some(named) => named.replace_all(text, format!("${{name}}{REDACTED}")),
        None => Cow::Borrowed(text),
    }
}

/// Whether something of this name is likely to be a secret: a variable, a parameter, an option of a program.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    [
        "token",
        "secret",
        "password",
        "passwd",
        "api_key",
        "apikey",
        "access_key",
        "private_key",
        "credential",
        "authorization",
        "cookie",
    ]
    .iter()
    .any(|word| name.contains(word))
        || name.ends_with("_key")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a caller chooses decides how much there is to look for, not how long that takes.
    #[test]
    fn long_and_monotonous_secrets_are_looked_for_as_others() {
        let long = "L".repeat(60_000);
        let redactor = Redactor::of([long.as_str()]);
        assert_eq!(redactor.redact(&format!("a {long} b")), "a [redacted] b");
        assert_eq!(redactor.redact("a LLLL b"), "a LLLL b");
    }

    #[test]
    fn json_is_written_in_many_ways() {
        let redactor = Redactor::of(["pä<+/\u{1f511}\"x"]);
        for written in [
            r#"pä<+/🔑\"x"#,
            r#"p\u00e4<+/\ud83d\udd11\"x"#,
            r#"p\u00e4<+\/\ud83d\udd11\"x"#,
            r#"pä<+\/🔑\"x"#,
            r#"p\u00E4\u003C\u002B/\uD83D\uDD11\u0022x"#,
            r#"pä\u003c+/🔑\"x"#,
        ] {
            assert_eq!(redactor.redact(written), REDACTED, "{written}");
        }
    }

    #[test]
    fn a_value_is_found_however_it_is_spelled() {
        let value = "s3same open/\"now\"";
        let redactor = Redactor::of([value]);
        for text in [
            value.to_owned(),
            serde_json::to_string(value).expect("JSON"),
            "s3same+open%2F%22now%22".to_owned(),
            "s3same%20open%2F%22now%22".to_owned(),
            STANDARD_NO_PAD.encode(value),
            STANDARD_NO_PAD.encode(format!("u:{value}")),
            URL_SAFE_NO_PAD.encode(format!("us:{value}!")),
            STANDARD_NO_PAD.encode(format!("usr:{value}")),
        ] {
            let clean = redactor.redact(&text);
            assert!(clean.contains(REDACTED), "{text} is {clean}");
        }
        assert_eq!(redactor.redact("s3same"), "s3same");
        assert!(Redactor::of(["abc", ""]).is_empty(), "too short to be looked for");
    }

    #[test]
    fn the_longer_of_two_goes_whole() {
        assert_eq!(
            Redactor::of(["sesame", "sesame-open"]).redact("sesame-open sesame"),
            "[redacted] [redacted]"
        );
    }

    #[test]
    fn what_is_known_for_now_is_forgotten() {
        know("for-good-1");
        let now = know_for_now(vec!["for-now-1".to_owned()]);
        assert_eq!(redact("for-good-1 for-now-1"), "[redacted] for-now-1");
        assert_eq!(redact_line("for-good-1 for-now-1"), "[redacted] [redacted]");
        drop(now);
        assert_eq!(redact_line("for-good-1 for-now-1"), "[redacted] for-now-1");
    }

    #[test]
    fn what_a_text_calls_a_secret_is_one() {
        for (text, clean) in [
            ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
            ("cookie: a=b", "cookie: [redacted]"),
            (r#"{"password":"a\"b","n":1}"#, r#"{"password":[redacted],"n":1}"#),
            (r#"{\"password\":\"a\\\"b\",\"n\":1}"#, r#"{\"password\":[redacted],\"n\":1}"#),
            (r#"{"my_api_key": 12}"#, r#"{"my_api_key": [redacted]}"#),
            (r#"{\"accessToken\":\"abc\"}"#, r#"{\"accessToken\":[redacted]}"#),
            ("GET /mcp?access_token=abc&page=2", "GET /mcp?access_token=[redacted]&page=2"),
            ("client_secret=abc", "client_secret=[redacted]"),
            (
                "\u{1b}[3mtoken\u{1b}[0m\u{1b}[2m=\u{1b}[0mabc",
                "\u{1b}[3mtoken\u{1b}[0m\u{1b}[2m=\u{1b}[0m[redacted]",
            ),
            ("with Basic dTpw", "with Basic [redacted]"),
        ] {
            assert_eq!(by_name(text), clean);
        }
        for text in [
            "the access token cannot be read: it has no dots",
            "found who gives out tokens server=https://a token_server=https://b/token",
            "up upstream=\"tokens\"",
            "progressToken 5",
        ] {
            assert_eq!(by_name(text), text);
        }
    }

    #[test]
    fn names_of_secrets_are_known() {
        for name in ["GITHUB_TOKEN", "--api-key", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "SIGNING_KEY"] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["PATH", "MODE", "KEYBOARD"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
