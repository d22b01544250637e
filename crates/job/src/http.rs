//! One request and its answer. Nothing is repeated, followed or unpacked.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, ClientBuilder, Method, Url, redirect};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use taskgate_reach::{Denied, Reach};

use crate::answer::Answer;
use crate::failure::Failure;

/// The longest answer, in bytes.
const LONGEST_BODY: usize = 16 << 20;
/// How long it may take to reach the other side.
const CONNECT: Duration = Duration::from_secs(10);

/// Connections to job APIs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Http {
    /// To places that the declaration names.
    written: Client,
    /// To those that only an answer names.
    named: Client,
    reach: Reach,
}

/// A request with all its values.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Which request it is, for people.
    pub name: &'static str,
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub timeout: Duration,
    /// Whether the declaration names its place, and not only an answer.
    pub is_written: bool,
}

impl Http {
    /// Connections that trust the certificates of the operating system, and those in this file of PEM texts.
    ///
    /// # Errors
    ///
    /// Why there can be none.
    pub fn new(authorities: Option<&Path>) -> Result<Http, String> {
        Http::within(Reach::default(), authorities)
    }

    /// The same, and what only answers name may be within this reach, too.
    ///
    /// # Errors
    ///
    /// Why there can be none.
    pub fn within(reach: Reach, authorities: Option<&Path>) -> Result<Http, String> {
        let mut roots = RootCertStore::empty();
        // Without any, HTTPS fails with a clear error and HTTP still works.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(file) = authorities {
            let broken = |error: &dyn std::fmt::Display| {
                format!("the certificates in {} cannot be used: {error}", file.display())
            };
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| broken(&error))? {
                roots.add(certificate.map_err(|error| broken(&error))?).map_err(|error| broken(&error))?;
            }
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be used: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let builder = || {
            Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .redirect(redirect::Policy::none())
                .connect_timeout(CONNECT)
                .user_agent(concat!("taskgate/", env!("CARGO_PKG_VERSION")))
        };
        let built = |builder: ClientBuilder| {
            builder.build().map_err(|error| format!("there is no HTTP client: {}", chain(&error)))
        };
        Ok(Http { written: built(builder())?, named: built(reach.guard(builder()))?, reach })
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn exchange(&self, prepared: &Prepared) -> Result<Answer, Failure> {
        let request = prepared.name;
        let Prepared { method, url, headers, body, timeout, .. } = prepared.clone();
        let denied = |denied: &Denied| Failure::Unmade { request, why: format!("url: {denied}") };
        if !prepared.is_written {
            self.reach.check_url(&url, &[]).map_err(|why| denied(&why))?;
        }
        let client = if prepared.is_written { &self.written } else { &self.named };
        let mut built = client.request(method, url).headers(headers).timeout(timeout);
        if !body.is_empty() {
            built = built.body(body);
        }
        let unanswered = |error: reqwest::Error| {
            let why = match error.is_timeout() {
                true => format!("not within {timeout:?}"),
                false => chain(&error),
            };
            Failure::Unanswered { request, why }
        };
        let mut response = built.send().await.map_err(|error| match error {
            // It will not lead anywhere else by itself.
            error if Denied::among(&error).is_some() => Failure::Unmade { request, why: chain(&error) },
            // Only a connection that was never there carries nothing.
            error if error.is_connect() => Failure::Unsent { request, why: chain(&error) },
            error if error.is_builder() => Failure::Unmade { request, why: chain(&error) },
            error => unanswered(error),
        })?;
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(unanswered)? {
            if body.len() + piece.len() > LONGEST_BODY {
                let why = format!("it is longer than {} MiB", LONGEST_BODY >> 20);
                return Err(Failure::Unreadable { request, why });
            }
            body.extend_from_slice(&piece);
        }
        Ok(Answer::new(response.status().as_u16(), response.headers(), &body))
    }
}

/// An error with its reasons. Its URL is left out: there may be a secret in it.
fn chain(error: &reqwest::Error) -> String {
    let mut reasons = Vec::new();
    let mut next: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(reason) = next {
        reasons.push(reason.to_string());
        next = reason.source();
    }
    // The outermost only says that something is wrong with a request.
    if reasons.is_empty() { "it could not be made".to_owned() } else { reasons.join(": ") }
}
