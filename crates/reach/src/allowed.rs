use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use reqwest::{ClientBuilder, Url};

use crate::address::{is_in, kind_of, net};
use crate::resolve::Guarded;
use crate::{Denied, Origin};

/// Something that may be reached although not everybody can reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// The addresses of a network.
    Net(IpNet),
    /// A host, wherever it is.
    Host(String),
}

/// What URLs of others may lead to, besides addresses that everybody can reach. Clones are cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach(Arc<[Allowed]>);

impl Allowed {
    /// Reads what is written in a configuration: a network such as `10.0.0.0/8`, an address, or the name of a host.
    ///
    /// # Errors
    ///
    /// What is wrong with it, as the end of a sentence that begins with it.
    pub fn parse(text: &str) -> Result<Allowed, String> {
        if let Some(net) = net(text) {
            let exact = net.trunc();
            return match exact == net {
                true => Ok(Allowed::Net(net)),
                false => Err(format!("has bits beyond its prefix; write {exact}")),
            };
        }
        let wrong =
            || Err("is neither a network, an address nor the name of a host without a port".to_owned());
        if text.contains(['/', ':', '*', ' ', '@', '?', '#', '\\']) {
            return wrong();
        }
        // What URLs make of a host is what it is compared by.
        match Url::parse(&format!("http://{text}/")).as_ref().ok().and_then(Url::domain) {
            Some(host) => Ok(Allowed::Host(host.trim_end_matches('.').to_owned())),
            None => wrong(),
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::Net(net) if net.prefix_len() == net.max_prefix_len() => write!(f, "{}", net.addr()),
            Allowed::Net(net) => write!(f, "{net}"),
            Allowed::Host(host) => f.write_str(host),
        }
    }
}

impl Reach {
    /// With these, too.
    pub fn new(allowed: Vec<Allowed>) -> Reach {
        Reach(allowed.into())
    }

    /// What is allowed besides.
    pub fn allowed(&self) -> &[Allowed] {
        &self.0
    }

    /// Whether a host may be reached at this address.
    ///
    /// # Errors
    ///
    /// What is there, and how it can be allowed.
    pub fn check(&self, host: &str, address: IpAddr) -> Result<(), Denied> {
        let Some(kind) = kind_of(address) else { return Ok(()) };
        let is_allowed = |allowed: &Allowed| match allowed {
            Allowed::Net(net) => is_in(net, address),
            Allowed::Host(name) => name.eq_ignore_ascii_case(host.trim_end_matches('.')),
        };
        if self.0.iter().any(is_allowed) {
            return Ok(());
        }
        Err(Denied { host: host.to_owned(), address, kind })
    }

    /// Whether a URL that others have written may be asked, as far as that is seen without looking its host up: one that is written as an
    /// address is never looked up. One of the `written` origins always may.
    ///
    /// # Errors
    ///
    /// What is there, and how it can be allowed.
    pub fn check_url(&self, url: &Url, written: &[Origin]) -> Result<(), Denied> {
        if Origin::of(url).is_some_and(|origin| written.contains(&origin)) {
            return Ok(());
        }
        let Some(host) = url.host_str() else { return Ok(()) };
        match host.trim_matches(['[', ']']).parse() {
            Ok(address) => self.check(host, address),
            Err(_) => Ok(()),
        }
    }

    /// Those of these addresses of a host that may be reached.
    ///
    /// # Errors
    ///
    /// None may.
    pub(crate) fn filter(
        &self,
        host: &str,
        found: impl Iterator<Item = SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Denied> {
        let mut denied = None;
        let mut kept = Vec::new();
        for address in found {
            match self.check(host, address.ip()) {
                Ok(()) => kept.push(address),
                Err(why) => denied = Some(why),
            }
        }
        match denied {
            Some(why) if kept.is_empty() => Err(why),
            _ => Ok(kept),
        }
    }

    /// A client that looks at every address that a name leads to before it connects there. It must follow no redirects, and be asked
    /// for nothing that [`Reach::check_url`] has not seen.
    ///
    /// A proxy of the environment (`HTTPS_PROXY` and its like) is asked wherever it is, and then it is the proxy that looks names up.
    pub fn guard(&self, builder: ClientBuilder) -> ClientBuilder {
        builder.dns_resolver(Arc::new(Guarded::new(self.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_read_as_it_is_meant() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("169.254.169.254", "169.254.169.254"),
            ("fd00::/8", "fd00::/8"),
            ("[::1]", "::1"),
            ("issuer.internal", "issuer.internal"),
            ("Issuer.Internal.", "issuer.internal"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(Allowed::parse(text).map(|allowed| allowed.to_string()).as_deref(), Ok(shown));
        }
        for wrong in
            ["", "10.0.0.1/8", "10.0.0.0/33", "https://a", "a:80", "a/b", "*.internal", "a b", "a@b", "a?b"]
        {
            assert!(Allowed::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_what_is_allowed_is_reached() {
        let parse = |text: &str| Allowed::parse(text).expect("allowed");
        let reach = Reach::new(vec![parse("10.0.0.0/8"), parse("issuer.internal")]);
        let check =
            |host: &str, address: &str| reach.check(host, address.parse().expect("an address")).is_ok();
        assert!(check("a.example", "8.8.8.8"));
        assert!(check("a.example", "10.1.2.3") && check("a.example", "::ffff:10.1.2.3"));
        assert!(check("issuer.internal", "192.168.0.1") && check("ISSUER.internal.", "::1"));
        assert!(!check("a.example", "192.168.0.1") && !check("x.issuer.internal", "192.168.0.1"));
        let denied = Reach::default().check("a.example", [169, 254, 169, 254].into()).expect_err("denied");
        assert_eq!(
            denied.to_string(),
            "a.example is at 169.254.169.254, which is a link-local address, and nobody but the configuration may name that; \
             to allow it, put it into `allow_private` of [network]"
        );
    }

    /// However an address is written, it is what it is.
    #[test]
    fn a_url_that_is_an_address_is_looked_at() {
        let reach = Reach::default();
        let written = [Origin::of(&Url::parse("http://127.0.0.1:7/").expect("a URL")).expect("an origin")];
        let check = |url: &str| reach.check_url(&Url::parse(url).expect("a URL"), &written);
        for inner in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.0.0.1/",
            "http://017700000001/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://169.254.169.254/latest/",
            "http://a@10.0.0.1/",
            "http://127.0.0.1:8/",
            "https://127.0.0.1:7/",
            "http://0/",
            "http://１２７.0.0.1/",
            "http://%31%32%37.0.0.1/",
        ] {
            assert!(check(inner).is_err(), "{inner}");
        }
        for outer in
            ["http://127.0.0.1:7/x", "http://8.8.8.8/", "http://a.example/", "http://[2606:4700::1]/"]
        {
            assert_eq!(check(outer), Ok(()), "{outer}");
        }
    }
}
