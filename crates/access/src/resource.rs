use std::fmt;

use reqwest::Url;

/// Where a server describes itself (RFC 9728, section 3).
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The address of this server as clients know it, which is what tokens are for (RFC 8707).
///
/// It is kept in its canonical form: scheme and host in lower case, no port where it goes without saying, no slash where there is no
/// path (MCP, "Canonical Server URI").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    canonical: String,
    origin: String,
    path: String,
}

impl Resource {
    /// Reads an address.
    ///
    /// # Errors
    ///
    /// What is wrong with it, as the end of a sentence that begins with it.
    pub fn parse(text: &str) -> Result<Resource, String> {
        let url = Url::parse(text).map_err(|error| format!("is no URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("is neither http:// nor https://".to_owned());
        }
        if url.fragment().is_some() || url.query().is_some() {
            return Err("has a query or a fragment".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("has a user name or password in it".to_owned());
        }
        let origin = url.origin().ascii_serialization();
        let path = url.path().trim_end_matches('/').to_owned();
        Ok(Resource { canonical: format!("{origin}{path}"), origin, path })
    }

    /// The canonical form.
    pub fn as_str(&self) -> &str {
        &self.canonical
    }

    /// Its path; empty for the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Where its description lies.
    pub fn metadata_url(&self) -> String {
        format!("{}{}", self.origin, self.metadata_path())
    }

    /// The path of that.
    pub fn metadata_path(&self) -> String {
        format!("{WELL_KNOWN}{}", self.path)
    }

    /// Whether a token that says so is for this server. A slash at the end, which clients and issuers add and leave out, makes no
    /// difference: nothing else is served behind it.
    pub fn is_meant_by(&self, audience: &str) -> bool {
        audience == self.canonical || Resource::parse(audience).is_ok_and(|meant| meant == *self)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_form_however_it_is_written() {
        for (written, canonical, metadata) in [
            (
                "https://a.example/mcp",
                "https://a.example/mcp",
                "https://a.example/.well-known/oauth-protected-resource/mcp",
            ),
            (
                "HTTPS://A.Example:443/mcp/",
                "https://a.example/mcp",
                "https://a.example/.well-known/oauth-protected-resource/mcp",
            ),
            (
                "https://a.example/",
                "https://a.example",
                "https://a.example/.well-known/oauth-protected-resource",
            ),
            (
                "http://[::1]:8000/a/b",
                "http://[::1]:8000/a/b",
                "http://[::1]:8000/.well-known/oauth-protected-resource/a/b",
            ),
        ] {
            let resource = Resource::parse(written).expect("an address");
            assert_eq!(
                (resource.as_str(), resource.metadata_url().as_str()),
                (canonical, metadata),
                "{written}"
            );
        }
        for bad in ["a.example", "ftp://a", "https://a/#x", "https://a/?x", "https://u:p@a/", ""] {
            assert!(Resource::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_token_is_for_this_server_only_if_it_says_so() {
        let resource = Resource::parse("https://a.example/mcp").expect("an address");
        for (audience, ours) in [
            ("https://a.example/mcp", true),
            ("https://a.example/mcp/", true),
            ("HTTPS://A.EXAMPLE:443/mcp", true),
            ("https://a.example/MCP", false),
            ("https://a.example/mcp/other", false),
            ("https://a.example/mcp?x", false),
            ("https://a.example", false),
            ("http://a.example/mcp", false),
            ("https://a.example.evil.example/mcp", false),
            ("a.example/mcp", false),
            ("", false),
        ] {
            assert_eq!(resource.is_meant_by(audience), ours, "{audience}");
        }
    }
}
