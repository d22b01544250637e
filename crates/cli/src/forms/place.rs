//! Where a URL leads that a server wants somebody to visit.

/// What can be told of a URL before anybody follows it.
#[derive(Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// A page on the web, at this host. It can be opened.
    Web(&'a str),
    /// It is not opened from here; why, as a sentence.
    Doubtful(&'static str),
}

/// Reads it more strictly than a browser does: where a browser would have to make something else of what is shown, what is shown is
/// not where it leads.
pub fn place_of(url: &str) -> Place<'_> {
    let is_web = |scheme: &str| scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
    let Some((_, rest)) = url.split_once("://").filter(|(scheme, _)| is_web(scheme)) else {
        return Place::Doubtful("It is no page on the web.");
    };
    if url.contains(|c: char| c == '\\' || c.is_whitespace() || c.is_control()) {
        return Place::Doubtful(
            "It holds characters that a URL cannot have, and may lead elsewhere than it seems.",
        );
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Place::Doubtful(
            "What stands before the @ is not where it leads, but a name that is sent there.",
        );
    }
    let is_of_host = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if authority.is_empty() || !authority.chars().all(is_of_host) {
        return Place::Doubtful(
            "Its host is not written in plain letters, and may be another than it seems.",
        );
    }
    Place::Web(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_leads_where_it_seems_to_is_opened() {
        for (url, host) in [
            ("https://login.example/start?x=a@b", "login.example"),
            ("HTTP://[::1]:80", "[::1]:80"),
            ("https://xn--exmple-cua.com#x", "xn--exmple-cua.com"),
        ] {
            assert_eq!(place_of(url), Place::Web(host), "{url}");
        }
        for url in [
            "javascript:alert(1)//https://a.example",
            "file:///etc/passwd",
            "ftp://a.example",
            "https://bank.example@evil.example/",
            "https://user:secret@evil.example",
            "https://evil.example\\.bank.example/",
            "https://evil.example\t.bank.example/",
            "https://bank.example\u{2044}login.evil.example/",
            "https://b\u{430}nk.example/",
            "https:///path",
            "",
        ] {
            assert!(matches!(place_of(url), Place::Doubtful(_)), "{url:?}");
        }
    }
}
