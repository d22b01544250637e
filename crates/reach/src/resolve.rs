use std::collections::BTreeSet;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::Reach;

/// Where the environment names proxies.
const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// Looks names up, and at what comes of it.
pub(crate) struct Guarded {
    reach: Reach,
    /// The hosts of proxies, which are the operator's.
    proxies: BTreeSet<String>,
}

impl Guarded {
    pub(crate) fn new(reach: Reach) -> Guarded {
        let proxies = PROXIES.into_iter().filter_map(|name| host_of(&std::env::var(name).ok()?));
        Guarded { reach, proxies: proxies.collect() }
    }
}

/// The host of a proxy as it is written, with or without a scheme.
fn host_of(proxy: &str) -> Option<String> {
    let url = if proxy.contains("://") { Url::parse(proxy) } else { Url::parse(&format!("http://{proxy}")) };
    Some(url.ok()?.host_str()?.to_owned())
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let reach = (!self.proxies.contains(&host)).then(|| self.reach.clone());
        Box::pin(async move {
            // The port is the URL's.
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            let found = match reach {
                Some(reach) => reach.filter(&host, found)?,
                None => found.collect(),
            };
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use reqwest::{Client, redirect};
    use tokio::net::TcpListener;

    use super::*;
    use crate::Allowed;

    fn client(reach: &Reach) -> Client {
        // Building a client wants to know how to encrypt, also if nothing is.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder().no_proxy().redirect(redirect::Policy::none());
        reach.guard(builder).build().expect("a client")
    }

    fn root_of(error: &dyn Error) -> String {
        error.source().map_or_else(|| error.to_string(), root_of)
    }

    /// A name that leads inside is refused when it is connected to, and nobody hears of it; allowed, it is reached.
    #[tokio::test]
    async fn a_name_is_what_it_leads_to() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let url = format!("http://localhost:{}/", listener.local_addr().expect("bound").port());
        let refused = client(&Reach::default()).get(&url).send().await.expect_err("refused");
        let why = root_of(&refused);
        assert!(why.contains("localhost is at") && why.contains("this machine"), "{why}");
        assert!(refused.is_connect());
        let is_silent = tokio::time::timeout(std::time::Duration::ZERO, listener.accept()).await;
        assert!(is_silent.is_err(), "nobody has connected");
        for allowed in ["localhost", "127.0.0.0/8"] {
            // Both families, as a name may lead to both.
            let allowed = [allowed, "::1"].map(|text| Allowed::parse(text).expect("allowed"));
            let client = client(&Reach::new(allowed.into()));
            let (asked, heard) = tokio::join!(
                tokio::time::timeout(std::time::Duration::from_secs(20), client.get(&url).send()),
                async {
                    // Whoever connects is let go again without an answer.
                    drop(listener.accept().await.expect("somebody"));
                }
            );
            let failed = asked.expect("in time").expect_err("no answer");
            assert!(!root_of(&failed).contains("localhost is at"), "{failed:?}");
            let () = heard;
        }
    }

    #[test]
    fn a_proxy_is_found_however_it_is_written() {
        for (proxy, host) in [
            ("http://proxy.internal:3128", "proxy.internal"),
            ("proxy.internal:3128", "proxy.internal"),
            ("socks5h://u:p@10.0.0.1:1", "10.0.0.1"),
        ] {
            assert_eq!(host_of(proxy).as_deref(), Some(host));
        }
    }
}
