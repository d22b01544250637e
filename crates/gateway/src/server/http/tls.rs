//! TLS: our certificate, which may be renewed while we serve.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::RwLock;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::policy::TlsFiles;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or has not in it what it should.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Certificate and key do not fit together, or are of a kind that is not known here.
    #[error("the certificate and the key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// Answers handshakes.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<Certificate>,
}

impl Tls {
    /// With the certificate and key in these files. If clients are to show one of an authority, `must_show` says whether those who show
    /// none are turned away in the handshake; those who show a bad one are.
    pub fn load(files: &TlsFiles, must_show: bool) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let (stamp, key) = (stamp(files), read(files, &provider)?);
        let current = RwLock::new((stamp, Arc::new(key)));
        let certificate = Arc::new(Certificate { files: files.clone(), current, provider: provider.clone() });
        let config =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let config = match &files.client_ca {
            None => config.with_no_client_auth(),
            Some(file) => config.with_client_cert_verifier(verifier(file, must_show, provider)?),
        };
        let mut config = config.with_cert_resolver(certificate.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
    }

    /// Reads the files again if they have changed. Connections that are open keep what they have; if the files cannot be used,
    /// perhaps since only one of them has been written yet, new ones get what there was.
    pub fn renew(&self) {
        let Certificate { files, current, provider } = &*self.certificate;
        let now = stamp(files);
        if current.read().0 == now {
            return;
        }
        match read(files, provider) {
            Ok(key) => {
                *current.write() = (now, Arc::new(key));
                tracing::info!(certificate = %files.certificate.display(), "the certificate was renewed");
            }
            Err(error) => tracing::warn!(%error, "the new certificate is not used"),
        }
    }

    /// The certificate (DER) that a client has shown, if it has; it is good.
    pub fn shown(stream: &TlsStream<TcpStream>) -> Option<&[u8]> {
        let chain = stream.get_ref().1.peer_certificates()?;
        chain.first().map(|certificate| &**certificate)
    }

    /// Does the handshake.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }
}

/// By which files are told to have changed.
type Stamp = [Option<(SystemTime, u64)>; 2];

#[derive(Debug)]
struct Certificate {
    files: TlsFiles,
    current: RwLock<(Stamp, Arc<CertifiedKey>)>,
    provider: Arc<CryptoProvider>,
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().1.clone())
    }
}

fn stamp(files: &TlsFiles) -> Stamp {
    [&files.certificate, &files.key].map(|file| {
        let facts = std::fs::metadata(file).ok()?;
        Some((facts.modified().ok()?, facts.len()))
    })
}

/// Believes certificates of the authorities in this file. They count until the next start.
fn verifier(
    file: &Path,
    must_show: bool,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let wrong = |why: String| TlsError::File { path: file.to_owned(), why };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
    let builder = if must_show { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|error| wrong(error.to_string()))
}

/// What is in a PEM file, which must be something.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |why: String| TlsError::File { path: file.to_owned(), why };
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let certificates: Vec<_> = read.map_err(|error| wrong(error.to_string()))?;
    if certificates.is_empty() {
        return Err(wrong("has no certificate in it (PEM)".to_owned()));
    }
    Ok(certificates)
}

fn read(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let certificates = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| TlsError::File { path: files.key.clone(), why: error.to_string() })?;
    Ok(CertifiedKey::from_der(certificates, key, provider)?)
}
