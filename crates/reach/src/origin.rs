use reqwest::Url;

/// A scheme, a host and a port: a place that the configuration names, and that may be asked wherever it is. The scheme belongs to it: what is
/// sent to a place that is encrypted is not sent there in plain text because an answer says so.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    /// Of a URL with a host; `None` of any other.
    pub fn of(url: &Url) -> Option<Origin> {
        let host = url.host_str()?.trim_end_matches('.').to_ascii_lowercase();
        Some(Origin { scheme: url.scheme().to_owned(), host, port: url.port_or_known_default()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_plain_text_is_another_one() {
        let of = |url: &str| Origin::of(&Url::parse(url).expect("a URL"));
        assert_eq!(of("https://A.example/x"), of("https://a.example.:443/y"));
        assert_ne!(of("https://a.example"), of("http://a.example:443"));
        assert_eq!(of("data:x"), None);
    }
}
