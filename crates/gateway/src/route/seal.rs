//! Seals what a caller carries for us until it comes back.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};

/// What makes every seal another one. It is long enough to be drawn at random without ever meeting itself.
pub type Nonce = [u8; 24];

/// Authenticated encryption with a secret of the store: whoever has the store's secret can open what it closed, nobody
/// else can read it, change it, or use it for anything but what it was bound to.
pub struct Seal(XChaCha20Poly1305);

impl Seal {
    /// With this secret.
    pub fn new(secret: &[u8; 32]) -> Seal {
        Seal(XChaCha20Poly1305::new(secret.into()))
    }

    /// A token that holds the text and opens only together with `bound_to`.
    pub fn close(&self, text: &[u8], bound_to: &[u8]) -> Result<String, Unsealable> {
        let mut nonce = Nonce::default();
        getrandom::fill(&mut nonce).map_err(|_| Unsealable)?;
        let what = Payload { msg: text, aad: bound_to };
        let closed = self.0.encrypt(&XNonce::from(nonce), what).map_err(|_| Unsealable)?;
        Ok(URL_SAFE_NO_PAD.encode([nonce.as_slice(), &closed].concat()))
    }

    /// What a token holds, and its nonce. `None` if it was not closed with this secret, or not bound to this.
    pub fn open(&self, token: &str, bound_to: &[u8]) -> Option<(Nonce, Vec<u8>)> {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (nonce, closed) = bytes.split_first_chunk::<24>()?;
        let what = Payload { msg: closed, aad: bound_to };
        let text = self.0.decrypt(&XNonce::from(*nonce), what).ok()?;
        Some((*nonce, text))
    }
}

/// There was no randomness, or the text is longer than the cipher can take.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the state of the call cannot be sealed")]
pub struct Unsealable;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_opens_for_what_it_was_bound_to_and_unchanged_only() {
        let seal = Seal::new(&[7; 32]);
        let token = seal.close(b"text", b"bound").expect("sealed");
        assert_eq!(seal.open(&token, b"bound").map(|(_, text)| text).as_deref(), Some(&b"text"[..]));
        assert_eq!(seal.open(&token, b"other"), None);
        assert_eq!(Seal::new(&[8; 32]).open(&token, b"bound"), None);
        assert_ne!(seal.close(b"text", b"bound").expect("sealed"), token);
        for at in 0..token.len() {
            for other in ["A", "z", "-", "+", "=", " ", "é"] {
                let mut changed = token.clone();
                changed.replace_range(at..=at, other);
                // A last character may differ in bits that stand for nothing; the decoder refuses these as well.
                assert!(changed == token || seal.open(&changed, b"bound").is_none(), "{at} {other}");
            }
            assert_eq!(seal.open(&token[..at], b"bound"), None, "{at}");
        }
    }
}
