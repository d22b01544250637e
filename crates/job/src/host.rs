//! Which host a URL means, and who decides about it: the text and the settings, or an answer of the API. Never the caller.

use std::collections::HashSet;

use minijinja::Value;
use reqwest::Url;
use taskgate_reach::Origin;

use crate::engine::STRICT;
use crate::template::{Escape, Fault};

/// What comes from whoever calls the tool.
const OF_CALLERS: [&str; 2] = ["args", "answer"];

/// The beginning of a template up to the end of host and port. What is inserted there decides which server is asked.
///
/// URLs are read as generously here as they are later on: any number of slashes, of either kind, may stand before the host, and none need.
fn head(source: &str) -> &str {
    let is_slash = |c: char| matches!(c, '/' | '\\');
    let is_end = |c: char| is_slash(c) || matches!(c, '?' | '#');
    let (mut at, mut is_in_host, mut has_block) = (0, false, false);
    while let Some(next) = source[at..].chars().next() {
        if let Some(length) = block(&source[at..]) {
            (at, has_block) = (at + length, true);
            continue;
        }
        let rest = &source[at..];
        if !is_in_host && next == ':' {
            // The end of the scheme, and what comes before the host. A block before it may be the scheme or the host itself.
            let slashes = rest[1..].find(|c: char| !is_slash(c)).unwrap_or(rest.len() - 1);
            (at, is_in_host) = (at + 1 + slashes, !has_block || slashes > 0);
        } else if is_end(next) {
            return &source[..at];
        } else {
            at += next.len_utf8();
        }
    }
    source
}

/// How long the block is that a text begins with, if it begins with one.
fn block(text: &str) -> Option<usize> {
    let end = match text.get(..2)? {
        "{{" => "}}",
        "{%" => "%}",
        "{#" => "#}",
        _ => return None,
    };
    // One that does not end takes all the rest.
    Some(text.find(end).map_or(text.len(), |at| at + end.len()))
}

/// What is named before the end of the host; everything, if that cannot be told.
fn named(source: &str) -> Option<HashSet<String>> {
    let environment = &*STRICT;
    let compiled = environment.template_from_named_str(Escape::Url.name(), head(source)).ok()?;
    Some(compiled.undeclared_variables(false))
}

/// Checks that no caller decides about the host.
///
/// # Errors
///
/// What does.
pub fn check(source: &str) -> Result<(), Fault> {
    let Some(named) = named(source) else {
        return Err(Fault::new("the host of a URL cannot stand in the middle of a condition"));
    };
    match OF_CALLERS.into_iter().find(|name| named.contains(*name)) {
        Some(name) => Err(Fault::new(format!(
            "`{name}` comes from whoever calls, who must not say which host is asked; it can be inserted behind the host"
        ))),
        None => Ok(()),
    }
}

/// Where a URL leads to if nothing but settings says so.
pub fn settled(source: &str, values: &Value) -> Option<Origin> {
    if !named(source)?.iter().all(|name| name == "with") {
        return None;
    }
    let compiled = STRICT.template_from_named_str(Escape::Url.name(), head(source)).ok()?;
    let head = compiled.render(values.clone()).ok()?;
    Origin::of(&Url::parse(&head).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_url_ends_with_its_host() {
        for (source, expected) in [
            ("https://a.example/x", "https://a.example"),
            ("https://a.example", "https://a.example"),
            ("https://a.example?x=1", "https://a.example"),
            ("https://a.example#x", "https://a.example"),
            ("https://a.example\\x", "https://a.example"),
            ("https://a.example:{{ with.port }}/x", "https://a.example:{{ with.port }}"),
            ("https://u:p@a.example/x", "https://u:p@a.example"),
            // The host comes behind any number of slashes.
            ("https:///{{ args.x }}/y", "https:///{{ args.x }}"),
            ("https:/{{ args.x }}/y", "https:/{{ args.x }}"),
            ("https:{{ args.x }}/y", "https:{{ args.x }}"),
            ("https:\\\\{{ args.x }}/y", "https:\\\\{{ args.x }}"),
            ("{{ with.api|safe }}/x", "{{ with.api|safe }}"),
            ("{{ with.api|safe }}{{ args.x }}/y", "{{ with.api|safe }}{{ args.x }}"),
            ("{{ with.api|safe }}:{{ args.x }}/y", "{{ with.api|safe }}:{{ args.x }}"),
            ("{{ with.scheme }}://{{ args.x }}/y", "{{ with.scheme }}://{{ args.x }}"),
            ("{{ with.api ~ '/:' }}/x", "{{ with.api ~ '/:' }}"),
            ("{# a/b #}https://a.example/x", "{# a/b #}https://a.example"),
            ("https://a.example{% if x %}/{% endif %}", "https://a.example{% if x %}"),
        ] {
            assert_eq!(head(source), expected, "{source}");
        }
    }

    #[test]
    fn no_caller_says_which_host_is_asked() {
        for source in [
            "https://{{ args.host }}/x",
            "https://a.example{{ args.x }}",
            "https://a.example:{{ args.port }}/x",
            "https://{{ args.user }}@a.example/x",
            "https:///{{ args.x }}",
            "https:{{ args.x|safe }}",
            "{{ args.url|safe }}",
            "{{ with.api|safe }}{{ args.path|safe }}",
            "{{ answer.url|safe }}/x",
            "{% set h = args.host %}https://{{ h }}/x",
            "https://{{ (args.a ~ 'b')|safe }}/x",
            "https://a.example{% if args.x %}.evil{% endif %}/x",
            "https://a.example{% if args.x %}/x{% endif %}",
        ] {
            assert!(check(source).is_err(), "{source}");
        }
        for source in [
            "https://a.example/{{ args.x|safe }}",
            "https://a.example?x={{ args.x }}",
            "{{ with.api|safe }}/{{ args.x }}",
            "{{ job.url|safe }}",
            "https://{{ job.host }}/{{ args.x }}",
        ] {
            assert_eq!(check(source), Ok(()), "{source}");
        }
    }

    #[test]
    fn settings_say_where_a_url_leads_to() {
        let values = crate::engine::value_of(&serde_json::json!({
            "with": {"api": "https://a.example:8443/base", "bare": "https://", "host": "b.example"},
            "job": {"url": "https://a.example/"},
        }));
        let of = |url: &str| Origin::of(&Url::parse(url).expect("a URL"));
        for (source, expected) in [
            ("{{ with.api|safe }}/x", of("https://a.example:8443")),
            ("https://{{ with.host }}/{{ job.url }}", of("https://b.example")),
            ("http://c.example:81", of("http://c.example:81")),
            ("{{ job.url|safe }}/x", None),
            // Nothing is settled by half of a URL.
            ("{{ with.bare|safe }}/{{ job.url|safe }}", None),
        ] {
            assert_eq!(settled(source, &values), expected, "{source}");
        }
    }
}
