//! Who we are, as far as it is a secret: where secrets lie, and access tokens that are got with them (OAuth 2.0).
//!
//! What is read here is known in this process as a secret, so that it can be taken out of logs and messages ([`redact`]).
//!
//! Nothing is sent from here. Whoever needs a token sends the request for it, in its own way and with its own words for
//! what goes wrong on the way.

mod kept;
mod oauth;
pub mod redact;
mod secret;
mod source;

pub use kept::{Granted, Kept, refusal};
pub use oauth::{Grant, NoToken, OAuth, TokenRequest, Tokens, basic_form, form};
pub use secret::{Secret, secret_header};
pub use source::Source;
