use reqwest::Url;

/// A host and a port: a place that the configuration names, and that may be asked wherever it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    host: String,
    port: u16,
}

impl Origin {
    /// Of a URL with a host; `None` of any other.
    pub fn of(url: &Url) -> Option<Origin> {
        let host = url.host_str()?.trim_end_matches('.').to_ascii_lowercase();
        Some(Origin { host, port: url.port_or_known_default()? })
    }
}
