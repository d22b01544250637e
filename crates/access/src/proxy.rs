use std::net::IpAddr;

use crate::identity::Identity;
use crate::refusal::Refusal;

/// A proxy in front that has looked at who is calling, by a client's certificate for example, and says so in a header.
///
/// Anybody can write a header. It counts from these addresses only, and is nothing at all from any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// The name of the header, in lower case.
    pub header: String,
    /// Where the proxy connects from.
    pub addresses: Vec<IpAddr>,
    /// What those it vouches for may do.
    pub scopes: Vec<String>,
}

/// The longest name of a caller, in bytes.
const LONGEST: usize = 1024;

impl Proxy {
    /// Whom the proxy vouches for; `None` if it is not the proxy that is calling, or it says nothing.
    ///
    /// # Errors
    ///
    /// It says more than one thing, or nothing that can be read.
    pub fn vouched<'a>(
        &self,
        peer: Option<IpAddr>,
        mut values: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Option<Identity>, Refusal> {
        let is_proxy = peer.is_some_and(|peer| self.addresses.contains(&peer.to_canonical()));
        let Some(value) = values.next() else { return Ok(None) };
        if !is_proxy {
            tracing::warn!(header = self.header, "somebody who is not the proxy says who they are");
            return Ok(None);
        }
        if values.next().is_some() {
            return Err(Refusal::Malformed("the proxy names several callers"));
        }
        let name = std::str::from_utf8(value).unwrap_or_default().trim_matches([' ', '\t']);
        if name.is_empty() || name.len() > LONGEST || name.chars().any(char::is_control) {
            return Err(Refusal::Malformed("the proxy names no caller"));
        }
        Ok(Some(Identity::vouched(name, &self.scopes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_proxy_says_who_is_calling() {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let proxy =
            Proxy { header: "x-user".to_owned(), addresses: vec![address("10.0.0.1")], scopes: Vec::new() };
        let said = |peer: Option<&str>, values: &[&[u8]]| {
            let vouched = proxy.vouched(peer.map(address), values.iter().copied());
            vouched.map(|who| who.map(|who| who.owner))
        };
        for peer in ["10.0.0.1", "::ffff:10.0.0.1"] {
            assert_eq!(said(Some(peer), &[b" ann "]), Ok(Some("proxy ann".to_owned())));
        }
        for peer in [Some("10.0.0.2"), Some("127.0.0.1"), Some("::1"), None] {
            assert_eq!(said(peer, &[b"ann"]), Ok(None), "{peer:?}");
        }
        assert_eq!(said(Some("10.0.0.1"), &[]), Ok(None));
        for values in [&[b"ann".as_slice(), b"bob"][..], &[b""], &[b" "], &[b"\xff"], &[b"a\tb"]] {
            assert!(matches!(said(Some("10.0.0.1"), values), Err(Refusal::Malformed(_))), "{values:?}");
        }
    }
}
