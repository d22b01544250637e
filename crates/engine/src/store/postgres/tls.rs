//! Encryption, and who the server is.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::StoreError;

/// What makes connections private as `mode` says.
pub(super) fn connector(mode: SslMode, roots: Option<&Path>) -> Result<MakeRustlsConnect, StoreError> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Failed(format!("TLS cannot be used: {error}")))?;
    let config = match mode {
        SslMode::Require => config.with_root_certificates(trusted(roots)?),
        _ => config.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider))),
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn trusted(roots: Option<&Path>) -> Result<RootCertStore, StoreError> {
    let mut store = RootCertStore::empty();
    match roots {
        Some(file) => {
            let broken = |error: &dyn std::fmt::Display| {
                StoreError::Failed(format!("the certificates in {} cannot be used: {error}", file.display()))
            };
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| broken(&error))? {
                let certificate = certificate.map_err(|error| broken(&error))?;
                store.add(certificate).map_err(|error| broken(&error))?;
            }
            if store.is_empty() {
                return Err(broken(&"there is none in it"));
            }
        }
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if store.is_empty() {
                return Err(StoreError::Failed(
                    "the operating system has no certificates to check the database's with; install its \
                     ca-certificates, or name a file with sslrootcert"
                        .to_owned(),
                ));
            }
        }
    }
    Ok(store)
}

/// Encrypts against onlookers and asks nobody who they are, as `sslmode=prefer` promises no more.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
