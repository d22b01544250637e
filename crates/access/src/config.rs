use std::time::Duration;

use taskgate_credentials::Secret;
use taskgate_reach::Reach;

pub use jsonwebtoken::Algorithm;

use crate::certificate::Certificates;
use crate::proxy::Proxy;
use crate::resource::Resource;
use crate::rights::Rights;
use crate::tokens::StaticToken;

/// Whose tokens are taken here, and what they allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessConfig {
    /// What tokens are for: the address of this server as clients know it.
    pub resource: Resource,
    /// Who gives out tokens.
    pub issuers: Vec<Issuer>,
    /// Tokens that nobody gives out.
    pub tokens: Vec<StaticToken>,
    /// How certificates of clients say who is calling, if they do.
    pub certificates: Option<Certificates>,
    /// Who may say who is calling, beside tokens.
    pub proxy: Option<Proxy>,
    /// Which scopes what needs.
    pub rights: Rights,
    /// Where the metadata of issuers may lead to.
    pub reach: Reach,
}

/// An authorization server whose tokens are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Its identifier, compared letter by letter with what tokens say.
    pub name: String,
    /// What its tokens say they are for, if it cannot be told to say the resource.
    pub audiences: Vec<String>,
    /// How its tokens are believed.
    pub proof: Proof,
    /// How far its clock may be off.
    pub leeway: Duration,
    /// Whether it may be asked over a connection that others can read and change.
    pub plain_http: bool,
}

/// How a token is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By its signature, made with one of these algorithms and one of the issuer's keys.
    Signed {
        /// The algorithms, none of which has a shared secret.
        algorithms: Vec<Algorithm>,
        /// Where its keys are.
        keys: KeySource,
    },
    /// By asking the issuer (RFC 7662).
    Asked(Asking),
}

/// Where an issuer's keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// Where its metadata says (RFC 8414, OpenID Connect Discovery).
    Discovered,
    /// At this address.
    At(String),
}

/// How an issuer is asked about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Its introspection endpoint.
    pub url: String,
    /// Who asks.
    pub client_id: String,
    /// How it shows that.
    pub client_secret: Secret,
}

impl Issuer {
    /// The algorithms that are taken if none are chosen: all that have a public key.
    pub const ALGORITHMS: [Algorithm; 9] = [
        Algorithm::RS256,
        Algorithm::RS384,
        Algorithm::RS512,
        Algorithm::PS256,
        Algorithm::PS384,
        Algorithm::PS512,
        Algorithm::ES256,
        Algorithm::ES384,
        Algorithm::EdDSA,
    ];

    /// How far clocks may be off if nothing else is said.
    pub const LEEWAY: Duration = Duration::from_secs(30);

    /// An issuer of signed tokens, whose keys its metadata names.
    pub fn new(name: impl Into<String>) -> Issuer {
        let proof = Proof::Signed {
            algorithms: vec![Algorithm::RS256, Algorithm::ES256],
            keys: KeySource::Discovered,
        };
        Issuer { name: name.into(), audiences: Vec::new(), proof, leeway: Issuer::LEEWAY, plain_http: false }
    }
}
