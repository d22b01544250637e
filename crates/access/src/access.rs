use std::sync::Arc;

use crate::bearer;
use crate::certificate::Certificates;
use crate::clock::now;
use crate::config::{AccessConfig, Algorithm, Issuer, Proof};
use crate::fetch::{Fetch, may_ask, over_http};
use crate::identity::Identity;
use crate::introspect::Introspection;
use crate::jwt::{self, Unverified};
use crate::keys::Keys;
use crate::proxy::Proxy;
use crate::refusal::Refusal;
use crate::resource::Resource;
use crate::rights::Rights;
use crate::ring_provider;
use crate::tokens::{self, TokenHash};

/// Lets callers in. Clones share what has been learned of issuers.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    config: AccessConfig,
    issuers: Vec<(Issuer, Means)>,
}

enum Means {
    Signed(Vec<Algorithm>, Arc<Keys>),
    Asked(Introspection),
}

impl Access {
    /// Takes these tokens. Nobody is asked before the first one comes.
    ///
    /// # Errors
    ///
    /// What cannot be done so.
    pub fn new(config: AccessConfig) -> Result<Access, String> {
        let fetch = over_http(&config.reach)?;
        Access::with(config, fetch)
    }

    pub(crate) fn with(config: AccessConfig, fetch: Fetch) -> Result<Access, String> {
        ring_provider::install();
        let mut issuers = Vec::new();
        for issuer in &config.issuers {
            let means = match &issuer.proof {
                Proof::Signed { algorithms, keys } => {
                    if let Some(shared) = algorithms.iter().find(|named| !Issuer::ALGORITHMS.contains(named))
                    {
                        return Err(format!(
                            "{shared:?} has no public key, so anybody who can verify could sign"
                        ));
                    }
                    Means::Signed(algorithms.clone(), Keys::new(issuer, keys.clone(), fetch.clone()))
                }
                Proof::Asked(asking) => {
                    may_ask(&asking.url, issuer.plain_http).map_err(|why| format!("{} {why}", asking.url))?;
                    Means::Asked(Introspection::new(asking.clone(), fetch.clone()))
                }
            };
            issuers.push((issuer.clone(), means));
        }
        Ok(Access(Arc::new(Inner { config, issuers })))
    }

    /// Who shows this `Authorization` header.
    ///
    /// # Errors
    ///
    /// Why it is not let in.
    pub async fn check(&self, authorization: Option<&[u8]>) -> Result<Identity, Refusal> {
        let token = bearer::token(authorization)?;
        let Inner { config, issuers } = &*self.0;
        let hash = TokenHash::of(token);
        if let Some(identity) = tokens::find(&config.tokens, &hash) {
            return Ok(identity);
        }
        let Some(unverified) = Unverified::read(token) else {
            return self.ask_all(token, &hash).await;
        };
        // Compared before anything is fetched or computed for it.
        let claimed = unverified.issuer.as_deref();
        let (issuer, means) = issuers
            .iter()
            .find(|(issuer, _)| Some(issuer.name.as_str()) == claimed)
            .ok_or(Refusal::WrongIssuer)?;
        let claims = match means {
            Means::Signed(algorithms, keys) => {
                let claims = jwt::verify(token, &unverified, algorithms, keys).await?;
                jwt::check(&claims, issuer, &config.resource, now())?;
                claims
            }
            Means::Asked(introspection) => {
                introspection.check(token, &hash, issuer, &config.resource).await?
            }
        };
        Identity::of(issuer, claims)
    }

    /// A token that says nothing of where it is from: every issuer that can be asked may know it.
    async fn ask_all(&self, token: &str, hash: &TokenHash) -> Result<Identity, Refusal> {
        let mut refusal = Refusal::Unknown;
        for (issuer, means) in &self.0.issuers {
            let Means::Asked(introspection) = means else { continue };
            match introspection.check(token, hash, issuer, &self.0.config.resource).await {
                Ok(claims) => return Identity::of(issuer, claims),
                // The word of one that knows it goes before that of others that do not.
                Err(Refusal::Inactive) if refusal != Refusal::Unknown => {}
                Err(why) => refusal = why,
            }
        }
        Err(refusal)
    }

    /// Who else may say who is calling.
    pub fn proxy(&self) -> Option<&Proxy> {
        self.0.config.proxy.as_ref()
    }

    /// How certificates of clients say who is calling, if they do.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.0.config.certificates.as_ref()
    }

    /// What is needed for what.
    pub fn rights(&self) -> &Rights {
        &self.0.config.rights
    }

    /// What tokens are for.
    pub fn resource(&self) -> &Resource {
        &self.0.config.resource
    }

    /// The description of this server for its clients (RFC 9728, section 2); `None` if nobody gives out tokens for it, so that there
    /// is nothing for them to find.
    pub fn metadata(&self, name: &str) -> Option<String> {
        let Inner { config, issuers } = &*self.0;
        if issuers.is_empty() {
            return None;
        }
        let issuers: Vec<&str> = issuers.iter().map(|(issuer, _)| issuer.name.as_str()).collect();
        let mut said = serde_json::json!({
            "resource": config.resource.as_str(),
            "authorization_servers": issuers,
            "bearer_methods_supported": ["header"],
            "resource_name": name,
        });
        if !config.rights.required.is_empty() {
            said["scopes_supported"] = serde_json::json!(config.rights.required);
        }
        Some(said.to_string())
    }

    /// The `WWW-Authenticate` header for a refusal (RFC 6750, section 3; RFC 9728, 5.1).
    pub fn challenge(&self, refusal: &Refusal) -> String {
        let Inner { config, issuers } = &*self.0;
        let mut said = Vec::new();
        if let Some(word) = refusal.word() {
            said.push(format!("error=\"{word}\""));
            said.push(format!("error_description=\"{refusal}\""));
        }
        if !issuers.is_empty() {
            said.push(format!("resource_metadata=\"{}\"", config.resource.metadata_url()));
        }
        let scopes = refusal.scopes().unwrap_or(&config.rights.required);
        if !scopes.is_empty() {
            said.push(format!("scope=\"{}\"", scopes.join(" ")));
        }
        if said.is_empty() { "Bearer".to_owned() } else { format!("Bearer {}", said.join(", ")) }
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Access").field(&self.0.config).finish()
    }
}
