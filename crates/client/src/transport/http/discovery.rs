//! Who gives out tokens for a server that nobody has said it of: the server names its authorization servers (RFC 9728), and the
//! authorization server its token endpoint (RFC 8414).
//!
//! What comes back decides where a client secret goes, and comes from the server that wants the token. So it may lead to two places
//! only: the origin that was configured as the server's, and the issuer that was configured. Redirects are not followed. The token endpoint is
//! where that issuer says, but not at an address that only we can reach.

use parking_lot::Mutex;
use reqwest::header::ACCEPT;
use reqwest::{Client, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use taskgate_reach::{Origin, Reach};

use super::challenge::Challenge;
use super::oauth::exchange;
use super::server::{Clients, ServerUrl};

/// What is known, and found, of who gives out tokens for a server.
#[derive(Debug)]
pub(super) struct Discovery {
    server: ServerUrl,
    /// Whom the credentials are for.
    pub(super) issuer: Option<String>,
    /// Where a token endpoint may be that only the issuer names.
    pub(super) reach: Reach,
    /// What the server said last when it wanted a token; `None` if it never did.
    challenge: Mutex<Option<Challenge>>,
    found: Mutex<Option<Found>>,
}

/// Where tokens are given out, and what is asked for if nothing else is configured.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) token_url: ServerUrl,
    pub(super) client: Client,
    pub(super) scope: Option<String>,
    pub(super) resource: String,
}

/// What has been found so far does not count.
impl PartialEq for Discovery {
    fn eq(&self, other: &Discovery) -> bool {
        (&self.server, &self.issuer, &self.reach) == (&other.server, &other.issuer, &other.reach)
    }
}

/// What a server says of itself (RFC 9728, section 2).
#[derive(Deserialize)]
struct Resource {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Option<Vec<String>>,
}

/// What an authorization server says of itself (RFC 8414, section 2).
#[derive(Deserialize)]
struct Issuer {
    issuer: String,
    token_endpoint: String,
}

impl Discovery {
    pub(super) fn new(server: ServerUrl, issuer: Option<String>) -> Self {
        let reach = Reach::default();
        Discovery { server, issuer, reach, challenge: Mutex::default(), found: Mutex::default() }
    }

    /// The server wants a token, or another one.
    pub(super) fn challenged(&self, challenge: Challenge) {
        *self.challenge.lock() = Some(challenge);
    }

    /// Whether it has ever wanted one.
    pub(super) fn is_needed(&self) -> bool {
        self.challenge.lock().is_some()
    }

    /// Where tokens are given out, as it was found before or is found now. Called by one at a time.
    pub(super) async fn find(&self) -> Result<Found, String> {
        let challenge = self.challenge.lock().clone().unwrap_or_default();
        let known = self.found.lock().clone();
        let mut found = match known {
            Some(known) => known,
            None => {
                let found = self.look(challenge.resource_metadata.as_deref()).await?;
                tracing::info!(server = %self.server, token_server = %found.token_url, "found who gives out tokens");
                self.found.lock().insert(found).clone()
            }
        };
        // What the server demands for what was just refused goes before what it lists.
        found.scope = challenge.scope.or(found.scope);
        Ok(found)
    }

    /// It gives out none: it may be another one by now.
    pub(super) fn forget(&self) {
        *self.found.lock() = None;
    }

    async fn look(&self, named: Option<&str>) -> Result<Found, String> {
        let resource = self.resource(named).await?;
        let issuer = self.trusted(&resource)?;
        let url = safe(issuer, "the authorization server")?;
        let places = of_issuer(url.as_url());
        let said: Issuer = first(&places, "metadata of the authorization server").await?;
        if !is_same(&said.issuer, issuer) {
            return Err(format!("the metadata of {issuer} is that of {}", shown(&said.issuer)));
        }
        let token_url = safe(&said.token_endpoint, "the token endpoint")?;
        let client = self.client(&token_url, &url).map_err(|why| format!("the token endpoint: {why}"))?;
        let scope =
            resource.scopes_supported.map(|scopes| scopes.join(" ")).filter(|scope| !scope.is_empty());
        Ok(Found { token_url, client, scope, resource: resource.resource })
    }

    /// What the server says of itself.
    async fn resource(&self, named: Option<&str>) -> Result<Resource, String> {
        let server = self.server.as_url();
        let places = match named {
            Some(named) => {
                let url = safe(named, "its metadata")?;
                if url.as_url().origin() != server.origin() {
                    return Err(format!(
                        "it has its metadata at {url}, which is another server and not asked"
                    ));
                }
                vec![url.as_url().clone()]
            }
            None => of_resource(safe(server.as_str(), "its metadata")?.as_url()),
        };
        let said: Resource = first(&places, "metadata of the server").await?;
        // Some describe all that is there in one place, so it may be what lies above, too.
        if !Url::parse(&said.resource).is_ok_and(|resource| covers(&resource, server)) {
            return Err(format!("its metadata is of {}, which is another resource", shown(&said.resource)));
        }
        Ok(said)
    }

    /// What asks this token endpoint. At the hosts of the server and of the issuer, which somebody has written, it is asked wherever they are.
    fn client(&self, token_url: &ServerUrl, issuer: &ServerUrl) -> Result<Client, String> {
        let written = [&self.server, issuer].map(ServerUrl::as_url).into_iter().filter_map(Origin::of);
        let written: Vec<Origin> = written.collect();
        let url = token_url.as_url();
        self.reach.check_url(url, &written).map_err(|denied| denied.to_string())?;
        match Origin::of(url).is_some_and(|origin| written.contains(&origin)) {
            true => Ok(Clients::new(token_url)?.fresh),
            false => Clients::within(&self.reach, token_url),
        }
    }

    /// The authorization server that may see our credentials.
    fn trusted<'a>(&self, resource: &'a Resource) -> Result<&'a str, String> {
        let listed = &resource.authorization_servers;
        if listed.is_empty() {
            return Err("it names no authorization server".to_owned());
        }
        let is_trusted = |listed: &&String| match &self.issuer {
            Some(issuer) => is_same(listed, issuer),
            None => Url::parse(listed).is_ok_and(|url| url.origin() == self.server.as_url().origin()),
        };
        if let Some(trusted) = listed.iter().find(is_trusted) {
            return Ok(trusted);
        }
        let all: Vec<String> = listed.iter().take(3).map(|listed| shown(listed)).collect();
        Err(match &self.issuer {
            Some(issuer) => format!("it takes tokens of {}, and not of the issuer {issuer}", all.join(", ")),
            None => format!(
                "it takes tokens of {}, which is another server; if the credentials are for it, write it as `issuer`",
                all.join(", ")
            ),
        })
    }
}

/// Whether two issuers are one. Common servers write the root of a host with a slash in one document and without it in the
/// other, so it is URLs that are compared, and not texts.
fn is_same(one: &str, other: &str) -> bool {
    one == other || Url::parse(one).is_ok_and(|one| Url::parse(other).is_ok_and(|other| one == other))
}

/// A URL that may be asked: nobody on the way can read or change what is said there.
fn safe(text: &str, what: &str) -> Result<ServerUrl, String> {
    let url = ServerUrl::parse(text).map_err(|why| format!("{what} {why}"))?;
    if url.is_exposed() {
        return Err(format!("{what} is at {url}, which is not encrypted"));
    }
    Ok(url)
}

/// Where a server describes itself, if it does not say so (RFC 9728, section 3.1): for its path, else for all that is there.
fn of_resource(server: &Url) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    let mut places = vec![at(server, &format!("/.well-known/oauth-protected-resource{path}"))];
    if !path.is_empty() {
        places.push(at(server, "/.well-known/oauth-protected-resource"));
    }
    places
}

/// Where an authorization server describes itself (RFC 8414, sections 3.1 and 5).
fn of_issuer(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut places = vec![
        at(issuer, &format!("/.well-known/oauth-authorization-server{path}")),
        at(issuer, &format!("/.well-known/openid-configuration{path}")),
    ];
    if !path.is_empty() {
        places.push(at(issuer, &format!("{path}/.well-known/openid-configuration")));
    }
    places
}

fn at(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url
}

/// Whether a resource is this server, or what it is a part of.
fn covers(resource: &Url, server: &Url) -> bool {
    let (above, path) = (resource.path().trim_end_matches('/'), server.path());
    resource.origin() == server.origin()
        && path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The first of these documents that is there. All are at one server.
async fn first<T: DeserializeOwned>(places: &[Url], what: &str) -> Result<T, String> {
    let Some(place) = places.first() else { return Err(format!("there is no {what}")) };
    let client = Clients::new(&ServerUrl::parse(place.as_str())?)?.fresh;
    let mut status = StatusCode::NOT_FOUND;
    for place in places {
        let request = client.get(place.clone()).header(ACCEPT, "application/json");
        let (answered, body) = exchange(request).await.map_err(|why| format!("{what}: {why}"))?;
        if answered == StatusCode::OK {
            return serde_json::from_slice(&body).map_err(|error| format!("{what}: {error}"));
        }
        status = answered;
    }
    Err(format!("there is no {what} (status {status})"))
}

/// What a server wrote, as far as it can be shown.
fn shown(text: &str) -> String {
    format!("\"{}\"", text.chars().take(120).collect::<String>().escape_debug())
}
