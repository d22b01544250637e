use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use taskgate_task::{KEY_DIGITS, SEALED, sealed_weight};

use crate::{Seal, StoreError, Unsealable};

/// Which key it is: half as many bytes of a hash of it as [`KEY_DIGITS`]. It says nothing of the key itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId([u8; KEY_DIGITS / 2]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// A key that values are encrypted with.
pub struct Key {
    id: KeyId,
    /// The same in digits, as it stands in every value.
    digits: String,
    seal: Seal,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

impl Key {
    /// A key of these bytes, which must come from a source of randomness.
    pub fn new(bytes: &[u8; 32]) -> Key {
        let hash: [u8; 32] =
            Sha256::new_with_prefix(b"taskgate: which key this is\0").chain_update(bytes).finalize().into();
        let mut id = [0; KEY_DIGITS / 2];
        id.iter_mut().zip(hash).for_each(|(id, byte)| *id = byte);
        let id = KeyId(id);
        Key { id, digits: id.to_string(), seal: Seal::new(bytes) }
    }

    /// Reads a key as people keep it: 32 bytes as base64 (of either alphabet, padded or not) or as hexadecimal digits.
    ///
    /// # Errors
    ///
    /// What it is not, as the end of a sentence, and nothing of the text.
    pub fn parse(text: &str) -> Result<Key, String> {
        let bytes = match text.len() {
            64 => from_hex(text),
            _ => {
                let text = text.trim_end_matches('=');
                STANDARD_NO_PAD.decode(text).or_else(|_| URL_SAFE_NO_PAD.decode(text)).ok()
            }
        };
        let bytes: Option<[u8; 32]> = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(|bytes| Key::new(&bytes)).ok_or_else(|| {
            "is no key: it must be 32 bytes, in base64 or in 64 hexadecimal digits; `openssl rand -base64 32` makes one"
                .to_owned()
        })
    }

    /// Which key it is.
    pub fn id(&self) -> KeyId {
        self.id
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

/// The keys of a store: the first one encrypts, and each of them decrypts what it has encrypted.
#[derive(Debug)]
pub(super) struct KeyRing(Vec<Key>);

impl KeyRing {
    /// With these keys.
    pub(super) fn new(keys: Vec<Key>) -> Result<KeyRing, StoreError> {
        if keys.is_empty() {
            return Err(StoreError::Keys("a store cannot be encrypted without a key".to_owned()));
        }
        Ok(KeyRing(keys))
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = KeyId> + '_ {
        self.0.iter().map(Key::id)
    }

    /// Encrypts; the text opens only together with `bound_to`.
    pub(super) fn close(&self, plain: &[u8], bound_to: &[u8]) -> Result<String, Unsealable> {
        let key = self.0.first().ok_or(Unsealable)?;
        let closed = key.seal.close(plain, &bound(&key.digits, bound_to))?;
        let mut text = String::with_capacity(SEALED.len() + KEY_DIGITS + 1 + closed.len().div_ceil(3) * 4);
        text.push_str(SEALED);
        text.push_str(&key.digits);
        text.push(':');
        STANDARD_NO_PAD.encode_string(closed, &mut text);
        Ok(text)
    }

    /// Decrypts what [`is_sealed`]. An error says why it cannot, and nothing of the text.
    pub(super) fn open(&self, text: &str, bound_to: &[u8]) -> Result<Vec<u8>, String> {
        let changed = || "it was changed, or belongs elsewhere".to_owned();
        let (digits, body) = parts(text).ok_or_else(changed)?;
        let key = self.0.iter().find(|key| key.digits == digits);
        let key = key.ok_or_else(|| format!("it was encrypted with the key {digits}, which is not here"))?;
        let closed = STANDARD_NO_PAD.decode(body).map_err(|_| changed())?;
        let (_, plain) = key.seal.open(&closed, &bound(digits, bound_to)).ok_or_else(changed)?;
        Ok(plain)
    }

    /// Whether the first key has encrypted it.
    pub(super) fn is_current(&self, text: &str) -> bool {
        let current = self.0.first().map(|key| key.digits.as_str());
        parts(text).is_some_and(|(digits, _)| Some(digits) == current)
    }
}

/// Whether this is an encrypted value, by its looks.
pub(super) fn is_sealed(text: &str) -> bool {
    sealed_weight(text).is_some()
}

/// The digits of the key, and what it has encrypted.
fn parts(text: &str) -> Option<(&str, &str)> {
    sealed_weight(text)?;
    let (digits, body) = text.strip_prefix(SEALED)?.split_at_checked(KEY_DIGITS)?;
    Some((digits, body.strip_prefix(':')?))
}

/// The head of a value counts as well.
fn bound(digits: &str, bound_to: &[u8]) -> Vec<u8> {
    [SEALED.as_bytes(), digits.as_bytes(), b":", bound_to].concat()
}
