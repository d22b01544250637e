//! What a server says with its 401: where to learn who gives out tokens for it, and what they must allow (RFC 9110, 11.6.1; RFC
//! 9728, 5.1).

use std::iter::Peekable;
use std::str::Chars;

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// The challenge for a bearer token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// Where the server describes itself.
    pub(super) resource_metadata: Option<String>,
    /// What the token must allow, separated by blanks.
    pub(super) scope: Option<String>,
}

impl Challenge {
    /// Reads it; one that says nothing, if there is none. The first word on each counts.
    pub(super) fn of(headers: &HeaderMap) -> Challenge {
        let mut challenge = Challenge::default();
        for header in headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|header| header.to_str().ok()) {
            challenge.read(header);
        }
        challenge
    }

    fn read(&mut self, text: &str) {
        let mut rest = text.chars().peekable();
        let mut is_bearer = false;
        while rest.peek().is_some() {
            skip(&mut rest, |c| c == ',' || c.is_whitespace());
            let name = token(&mut rest);
            skip(&mut rest, char::is_whitespace);
            if rest.next_if_eq(&'=').is_none() {
                // What stands alone is a scheme; what cannot even begin one is passed over.
                match name.as_str() {
                    "" => drop(rest.next()),
                    scheme => is_bearer = scheme.eq_ignore_ascii_case("bearer"),
                }
                continue;
            }
            skip(&mut rest, char::is_whitespace);
            let value = if rest.next_if_eq(&'"').is_some() { quoted(&mut rest) } else { token(&mut rest) };
            let known = match name.to_ascii_lowercase().as_str() {
                "resource_metadata" => &mut self.resource_metadata,
                "scope" => &mut self.scope,
                _ => continue,
            };
            if is_bearer && !value.is_empty() {
                known.get_or_insert(value);
            }
        }
    }
}

/// Where a server describes itself and what a token must allow, as these values of `WWW-Authenticate` say it.
#[cfg(feature = "fuzzing")]
pub fn challenged(values: &[&[u8]]) -> (Option<String>, Option<String>) {
    let values = values.iter().filter_map(|value| reqwest::header::HeaderValue::from_bytes(value).ok());
    let challenge = Challenge::of(&values.map(|value| (WWW_AUTHENTICATE, value)).collect());
    (challenge.resource_metadata, challenge.scope)
}

fn skip(rest: &mut Peekable<Chars<'_>>, what: impl Fn(char) -> bool) {
    while rest.next_if(|c| what(*c)).is_some() {}
}

fn token(rest: &mut Peekable<Chars<'_>>) -> String {
    let is_part = |c: &char| !c.is_whitespace() && !matches!(c, ',' | '=' | '"');
    std::iter::from_fn(|| rest.next_if(is_part)).collect()
}

/// The rest of a quoted text.
fn quoted(rest: &mut Peekable<Chars<'_>>) -> String {
    let mut text = String::new();
    while let Some(next) = rest.next() {
        match next {
            '"' => break,
            '\\' => text.extend(rest.next()),
            plain => text.push(plain),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_however_they_are_written() {
        for (header, metadata, scope) in [
            (r#"Bearer resource_metadata="https://a/x", scope="r w""#, Some("https://a/x"), Some("r w")),
            (r#"bearer realm="a, scope=\"no\"",scope=read"#, None, Some("read")),
            (r#"Basic realm="x", scope="no", Bearer  Scope = "yes""#, None, Some("yes")),
            (r#"Negotiate YWJj==, Bearer error="invalid_token""#, None, None),
            (r#"DPoP scope="no""#, None, None),
            (r#"Bearer scope="unended"#, None, Some("unended")),
            (r#"Bearer scope="", ===,"" resource_metadata=https://a/b?c"#, Some("https://a/b?c"), None),
            ("", None, None),
        ] {
            let headers = HeaderMap::from_iter([(WWW_AUTHENTICATE, header.parse().expect("a header"))]);
            let read = Challenge::of(&headers);
            assert_eq!(
                (read.resource_metadata.as_deref(), read.scope.as_deref()),
                (metadata, scope),
                "{header}"
            );
        }
    }
}
