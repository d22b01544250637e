//! TLS: our certificate, which may be renewed while we serve.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
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
    /// With the certificate and key in these files.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let (stamp, key) = (stamp(files), read(files, &provider)?);
        let current = RwLock::new((stamp, Arc::new(key)));
        let certificate = Arc::new(Certificate { files: files.clone(), current, provider: provider.clone() });
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(certificate.clone());
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

fn read(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let wrong = |path: &Path, why: &dyn std::fmt::Display| TlsError::File {
        path: path.to_owned(),
        why: why.to_string(),
    };
    let certificates: Vec<_> = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(&files.certificate, &error))?;
    if certificates.is_empty() {
        return Err(wrong(&files.certificate, &"has no certificate in it (PEM)"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, &error))?;
    Ok(CertifiedKey::from_der(certificates, key, provider)?)
}
