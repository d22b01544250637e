//! Who a caller is, by the token it shows, and what it may: an OAuth 2.1 resource server without a server.
//!
//! A token is one of three things: the word of an issuer that is signed (JWT, RFC 9068), the name of something that an issuer is
//! asked about (RFC 7662), or one that is written in the configuration by its hash. Whichever it is, what comes out is an
//! [`Identity`], or a [`Refusal`] that says what to do. Which tools an identity may use is decided by [`Rules`]. Nothing here knows MCP, and no token is kept, logged or repeated.

mod access;
mod bearer;
mod certificate;
mod clock;
mod config;
mod fetch;
mod identity;
mod introspect;
mod jwt;
mod keys;
mod proxy;
mod refusal;
mod resource;
mod rights;
mod ring_provider;
pub mod rules;
#[cfg(test)]
mod tests;
mod tokens;

pub use access::Access;
pub use certificate::{Certificates, Certified, SubjectKind};
pub use config::{AccessConfig, Algorithm, Asking, Issuer, KeySource, Proof};
pub use identity::Identity;
pub use proxy::Proxy;
pub use refusal::Refusal;
pub use resource::{Resource, WELL_KNOWN};
pub use rights::{Rights, is_scope};
pub use rules::{Effect, Rules};
pub use tokens::{StaticToken, TokenHash};
