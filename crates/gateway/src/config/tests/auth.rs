use super::*;
use crate::config::raw::auth::{AUTH, ISSUER, MTLS, PROXY, SCOPES, TOKEN};

const TOKEN_HASH: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

#[test]
fn a_printed_auth_means_the_same() {
    let config = valid(&format!(
        r#"
        path = "/v1"
        public_url = "https://gate.example/base/"
        [auth.proxy]
        header = "X-User"
        addresses = ["10.0.0.5", "::1"]
        scopes = ["mcp"]
        [tls]
        certificate = "cert.pem"
        key = "key.pem"
        client_ca = "clients.pem"
        [auth.mtls]
        subject = "uri"
        scopes = ["mcp"]
        [auth.scopes]
        required = ["mcp"]
        methods = {{ "tasks/*" = ["tasks:read"], "tasks/cancel" = ["tasks:write"] }}
        tools = {{ "odd name" = ["reports"] }}
        includes = {{ "tasks:write" = ["tasks:read"] }}
        [[auth.issuer]]
        issuer = "https://login.example/tenant/"
        audience = ["api://gate"]
        algorithms = ["ES256", "EdDSA"]
        jwks_url = "https://login.example/keys"
        leeway = "1m"
        [[auth.issuer]]
        issuer = "http://127.0.0.1:9/"
        introspection_url = "http://10.0.0.1/introspect"
        client_id = "gate"
        client_secret = "(hidden)"
        plain_http = true
        [[auth.token]]
        name = "ci"
        sha256 = "{TOKEN_HASH}"
        scopes = ["mcp"]
        {LEAST}"#
    ));
    let auth = config.settings.auth.as_ref().expect("[auth]");
    assert_eq!(auth.resource.as_str(), "https://gate.example/base/v1");
    assert_eq!((auth.issuers.len(), auth.tokens.len()), (2, 1));
    let again = valid(&config.to_toml());
    assert_eq!(format!("{again:#?}"), format!("{config:#?}"));
    assert_eq!(again.settings, config.settings);
}

#[test]
fn a_secret_for_introspection_is_not_shown() {
    let config = valid(&format!(
        r#"
        [auth]
        resource = "https://gate.example/mcp"
        [[auth.issuer]]
        issuer = "https://login.example"
        introspection_url = "https://login.example/introspect"
        client_id = "gate"
        client_secret = {{ from_env = "SECRET" }}
        {LEAST}"#
    ));
    assert!(!format!("{config:?}").contains("sesame") && !config.to_toml().contains("sesame"));
}

#[test]
fn the_piece_on_the_page_is_valid() {
    let page = fs::read_to_string(repository().join("docs/authorization.md")).expect("the page");
    let piece = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a piece");
    let auth = valid(piece).settings.auth.expect("[auth]");
    assert_eq!(auth.resource.as_str(), "https://mcp.example.org/mcp");
}

/// Who could not come in, or could without being told apart, is told before the server starts.
#[test]
fn auth_that_cannot_be_is_refused() {
    let token = format!("[[auth.token]]\nname = \"a\"\nsha256 = \"{TOKEN_HASH}\"\n");
    for (text, expected) in [
        (format!("single_user = true\npublic_url = \"https://a.example\"\n{token}"), "`single_user` takes every caller for the same one"),
        ("[auth]\nresource = \"https://a.example\"\n".to_owned(), "so nobody could come in"),
        (token.clone(), "[auth] has no `resource`"),
        (format!("[auth]\nresource = \"https://a.example/#x\"\n{token}"), "has a query or a fragment"),
        (format!("[auth]\nresource = \"https://a.example\"\n{token}{token}"), "is the name of another token"),
        ("[auth]\nresource = \"https://a.example\"\n[[auth.token]]\nname = \"a\"\nsha256 = \"secret\"\n".to_owned(), "not the SHA-256"),
        ("[auth]\nresource = \"https://a.example\"\n[[auth.issuer]]\nissuer = \"http://login.example\"\n".to_owned(), "unencrypted"),
        ("[auth]\nresource = \"https://a.example\"\n[[auth.issuer]]\nissuer = \"https://b\"\nalgorithms = [\"HS256\"]\n".to_owned(), "a secret that issuer and server share"),
        ("[auth]\nresource = \"https://a.example\"\n[[auth.issuer]]\nissuer = \"https://b\"\nalgorithms = [\"none\"]\n".to_owned(), "no algorithm"),
        ("[auth]\nresource = \"https://a.example\"\n[[auth.issuer]]\nissuer = \"https://b\"\nintrospection_url = \"https://b/i\"\n".to_owned(), "has no `client_id`"),
        ("[auth]\nresource = \"https://a.example\"\n[[auth.issuer]]\nissuer = \"https://b\"\n[[auth.issuer]]\nissuer = \"https://b\"\n".to_owned(), "is there twice"),
        ("[auth]\nresource = \"https://a.example\"\nproxy = { header = \"X-User\" }\n".to_owned(), "has no `addresses`"),
        ("[auth]\nresource = \"https://a.example\"\nproxy = { header = \"X-User\", addresses = [] }\n".to_owned(), "nobody could be the proxy"),
        ("[auth]\nresource = \"https://a.example\"\nproxy = { header = \"X-User\", addresses = [\"10.0.0.0/8\"] }\n".to_owned(), "is no IP address"),
        ("[auth]\nresource = \"https://a.example\"\nproxy = { header = \"Host\", addresses = [\"::1\"] }\n".to_owned(), "means something else"),
        ("[auth]\nresource = \"https://a.example\"\nmtls = {}\n".to_owned(), "nobody is asked for one"),
        ("[auth]\nresource = \"https://a.example\"\nmtls = { subject = \"cn\" }\n".to_owned(), "is no name of a certificate"),
        (format!("[auth]\nresource = \"https://a.example\"\nscopes = {{ required = [\"a b\"] }}\n{token}"), "is no scope"),
    ] {
        let problems = problems(&format!("{text}{LEAST}"));
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{text}\n{problems:?}");
        assert!(!problems.iter().any(|problem| problem.contains("secret\"")), "{problems:?}");
    }
}

#[test]
fn the_manual_explains_every_key_of_auth() {
    let manual = fs::read_to_string(repository().join("docs/config.md")).expect("the manual");
    let rows = &manual[manual.find("## Who is let in").expect("the part about [auth]")..];
    for key in [&AUTH, &SCOPES, &ISSUER, &TOKEN, &MTLS, &PROXY].into_iter().flat_map(|section| section.keys) {
        assert!(rows.contains(&format!("| `{key}` |")), "docs/config.md does not explain `{key}`");
    }
    let limits::DurationRange { least, most } = limits::LEEWAY;
    assert!(rows.contains(&format!("{} to {}", format_duration(least), format_duration(most))));
}
