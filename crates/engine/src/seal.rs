use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};

/// What makes every seal another one. It is long enough to be drawn at random without ever meeting itself.
pub type Nonce = [u8; 24];

/// Authenticated encryption (XChaCha20-Poly1305): who has the key can open what it closed, nobody else can read it, change it,
/// or use it for anything but what it was bound to.
pub struct Seal(XChaCha20Poly1305);

impl Seal {
    /// With this key.
    pub fn new(key: &[u8; 32]) -> Seal {
        Seal(XChaCha20Poly1305::new(key.into()))
    }

    /// The nonce, and the encrypted text with its tag, which opens only together with `bound_to`.
    ///
    /// # Errors
    ///
    /// Where the system gives no randomness, or the text is longer than the cipher can take.
    pub fn close(&self, text: &[u8], bound_to: &[u8]) -> Result<Vec<u8>, Unsealable> {
        let mut nonce = Nonce::default();
        getrandom::fill(&mut nonce).map_err(|_| Unsealable)?;
        let what = Payload { msg: text, aad: bound_to };
        let closed = self.0.encrypt(&XNonce::from(nonce), what).map_err(|_| Unsealable)?;
        Ok([nonce.as_slice(), &closed].concat())
    }

    /// What was closed, and the nonce. `None` if it was not closed with this key, or not bound to this.
    pub fn open(&self, closed: &[u8], bound_to: &[u8]) -> Option<(Nonce, Vec<u8>)> {
        let (nonce, closed) = closed.split_first_chunk::<24>()?;
        let what = Payload { msg: closed, aad: bound_to };
        let text = self.0.decrypt(&XNonce::from(*nonce), what).ok()?;
        Some((*nonce, text))
    }
}

/// There was no randomness, or the text is longer than the cipher can take.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("it cannot be sealed")]
pub struct Unsealable;
