//! Keys that sign, as issuers have them.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};

/// A key with the id it is published under.
pub struct Signer {
    pub id: &'static str,
    key: Key,
}

enum Key {
    Ed(Ed25519KeyPair),
    Ec(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
}

impl Signer {
    pub fn ed(id: &'static str) -> Signer {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        Signer { id, key: Key::Ed(Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key")) }
    }

    pub fn ec(id: &'static str) -> Signer {
        let (with, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(with, &random).expect("a key");
        Signer {
            id,
            key: Key::Ec(EcdsaKeyPair::from_pkcs8(with, document.as_ref(), &random).expect("a key")),
        }
    }

    /// This one is the same each time: making one takes long, and ring does not.
    pub fn rsa(id: &'static str) -> Signer {
        let text: String = include_str!("rsa.b64").split_whitespace().collect();
        let document = STANDARD.decode(text).expect("base64");
        Signer { id, key: Key::Rsa(Box::new(RsaKeyPair::from_pkcs8(&document).expect("a key"))) }
    }

    /// The algorithm it signs with.
    pub fn algorithm(&self) -> &'static str {
        match self.key {
            Key::Ed(_) => "EdDSA",
            Key::Ec(_) => "ES256",
            Key::Rsa(_) => "RS256",
        }
    }

    /// As it is published.
    pub fn public(&self) -> Value {
        let mut jwk = match &self.key {
            Key::Ed(key) => json!({"kty": "OKP", "crv": "Ed25519", "x": encode(key.public_key().as_ref())}),
            Key::Ec(key) => {
                let point = key.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "x": encode(&point[1..33]), "y": encode(&point[33..])})
            }
            Key::Rsa(key) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({"kty": "RSA", "n": encode(&public.n), "e": encode(&public.e)})
            }
        };
        jwk["kid"] = json!(self.id);
        jwk
    }

    /// What everybody may know of it, as bytes.
    pub fn public_bytes(&self) -> Vec<u8> {
        match &self.key {
            Key::Ed(key) => key.public_key().as_ref().to_vec(),
            Key::Ec(key) => key.public_key().as_ref().to_vec(),
            Key::Rsa(key) => key.public_key().as_ref().to_vec(),
        }
    }

    /// A token with these claims.
    pub fn sign(&self, claims: &Value) -> String {
        self.sign_with(&json!({"alg": self.algorithm(), "kid": self.id, "typ": "at+jwt"}), claims)
    }

    /// The same with another head.
    pub fn sign_with(&self, head: &Value, claims: &Value) -> String {
        let message = message(head, claims);
        let signature = match &self.key {
            Key::Ed(key) => key.sign(message.as_bytes()).as_ref().to_vec(),
            Key::Ec(key) => {
                key.sign(&SystemRandom::new(), message.as_bytes()).expect("signed").as_ref().to_vec()
            }
            Key::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                let padding: &dyn ring::signature::RsaEncoding =
                    if head["alg"] == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                key.sign(padding, &SystemRandom::new(), message.as_bytes(), &mut signature).expect("signed");
                signature
            }
        };
        format!("{message}.{}", encode(&signature))
    }
}

/// A token whose secret is what it is signed with.
pub fn sign_shared(head: &Value, claims: &Value, secret: &[u8]) -> String {
    let message = message(head, claims);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", encode(tag.as_ref()))
}

/// A token without its signature.
pub fn message(head: &Value, claims: &Value) -> String {
    format!("{}.{}", encode(head.to_string().as_bytes()), encode(claims.to_string().as_bytes()))
}

pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
