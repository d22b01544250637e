//! Which addresses may be reached by URLs that others have written: in answers of servers, in metadata, in redirects.
//!
//! What stands in the configuration is trusted, and asked wherever it is. A URL of anybody else may lead to addresses that everybody can reach, and
//! to nothing in between: this machine, a private network, or what a cloud tells its machines at 169.254.169.254. The address is looked
//! at when a connection is made to it, and not before, so that a name that means something else by then is of no help.

mod address;
mod allowed;
mod origin;
mod resolve;

pub use address::{Kind, kind_of};
pub use allowed::{Allowed, Reach};
pub use origin::Origin;

use std::error::Error;
use std::fmt;
use std::net::IpAddr;

/// Somewhere that a URL of others may not lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The host that was named.
    pub host: String,
    /// Where it is.
    pub address: IpAddr,
    /// What that is.
    pub kind: Kind,
}

impl Error for Denied {}

impl Denied {
    /// The reason of an error, if it is one of these.
    pub fn among<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Denied> {
        error.downcast_ref().or_else(|| Denied::among(error.source()?))
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Denied { host, address, kind } = self;
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(_) => write!(f, "{address} is {kind}, and nobody but the configuration may name it")?,
            Err(_) => write!(
                f,
                "{host} is at {address}, which is {kind}, and nobody but the configuration may name that"
            )?,
        }
        write!(f, "; to allow it, put it into `allow_private` of [network]")
    }
}
