//! Seals what a caller carries for us until it comes back.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
pub use taskgate_engine::{Nonce, Unsealable};

/// A [`Seal`](taskgate_engine::Seal) with a secret of the store, as text that goes anywhere.
pub struct Seal(taskgate_engine::Seal);

impl Seal {
    /// With this secret.
    pub fn new(secret: &[u8; 32]) -> Seal {
        Seal(taskgate_engine::Seal::new(secret))
    }

    /// A token that holds the text and opens only together with `bound_to`.
    pub fn close(&self, text: &[u8], bound_to: &[u8]) -> Result<String, Unsealable> {
        self.0.close(text, bound_to).map(|closed| URL_SAFE_NO_PAD.encode(closed))
    }

    /// What a token holds, and its nonce. `None` if it was not closed with this secret, or not bound to this.
    pub fn open(&self, token: &str, bound_to: &[u8]) -> Option<(Nonce, Vec<u8>)> {
        self.0.open(&URL_SAFE_NO_PAD.decode(token).ok()?, bound_to)
    }
}

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
