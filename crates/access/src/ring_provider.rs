//! Signatures are verified by ring, which is in this program anyway for TLS. What `jsonwebtoken` brings for it would be a second
//! library of ciphers.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature as ring;
use signature::{Error, Verifier};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes it known. Another one that is there already does the same.
pub fn install() {
    let _ = PROVIDER.install_default();
}

/// Nothing is signed here.
fn signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

/// What can be verified: algorithms whose key everybody may know, with a key of their family.
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let with = match algorithm {
        Algorithm::RS256 => With::Rsa(&ring::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => With::Rsa(&ring::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => With::Rsa(&ring::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => With::Rsa(&ring::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => With::Rsa(&ring::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => With::Rsa(&ring::RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => With::Other(&ring::ECDSA_P256_SHA256_FIXED, AlgorithmFamily::Ec),
        Algorithm::ES384 => With::Other(&ring::ECDSA_P384_SHA384_FIXED, AlgorithmFamily::Ec),
        Algorithm::EdDSA => With::Other(&ring::ED25519, AlgorithmFamily::Ed),
        _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
    };
    let family = match with {
        With::Rsa(_) => AlgorithmFamily::Rsa,
        With::Other(_, family) => family,
    };
    if key.family() != family {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(Public { algorithm: *algorithm, with, key: key.clone() }))
}

enum With {
    Rsa(&'static ring::RsaParameters),
    Other(&'static dyn ring::VerificationAlgorithm, AlgorithmFamily),
}

struct Public {
    algorithm: Algorithm,
    with: With,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for Public {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (&self.with, self.key.kind()) {
            (With::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                ring::RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (With::Other(algorithm, _), DecodingKeyKind::SecretOrDer(key)) => {
                ring::UnparsedPublicKey::new(*algorithm, key).verify(message, signature)
            }
            _ => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for Public {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
