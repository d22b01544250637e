use std::sync::Arc;

use super::SealedStore;
use super::keys::{Key, KeyId, KeyRing, is_sealed};
use crate::store::{Kept, KeptSecret, Store, StoreError};

/// Names of what a store keeps of its keys, before the key's id: an encrypted text by which a key is known to be the one, or
/// nothing if no value needs that key any more.
const OF_A_KEY: &str = "encryption-key/";
const CHECK: &[u8] = b"taskgate";

/// The store as it is to be used: encrypted if there are keys. The first one encrypts from now on, and the store knows that it
/// is needed.
///
/// # Errors
///
/// [`StoreError::Keys`] if the store needs a key that is not among these; it names the key.
pub async fn unlock(store: Arc<dyn Store>, keys: Vec<Key>) -> Result<Arc<dyn Store>, StoreError> {
    if keys.is_empty() {
        wanted(&*store, &[]).await?;
        return Ok(store);
    }
    Ok(Arc::new(SealedStore::open(store, keys).await?))
}

impl SealedStore {
    /// The store with its values encrypted: the first key encrypts from now on, and the others decrypt what they have
    /// encrypted. What is not encrypted yet is read as it is.
    ///
    /// The store beneath must not be used otherwise from here on, and not be opened like this twice.
    ///
    /// # Errors
    ///
    /// [`StoreError::Keys`] if the store needs a key that is not among these; it names the key.
    pub async fn open(store: Arc<dyn Store>, keys: Vec<Key>) -> Result<SealedStore, StoreError> {
        let sealed = SealedStore::reader(store, keys).await?;
        let Some(current) = sealed.keys.ids().next() else { return Ok(sealed) };
        let name = name_of(current);
        let check = check(&sealed.keys, &name)?;
        if sealed.beneath.keep(&name, check.clone()).await?.is_empty() {
            // It was needed once, and is again.
            let kept = KeptSecret { name, value: check };
            sealed.beneath.load(vec![Kept::Secret(kept)]).await?;
        }
        Ok(sealed)
    }

    /// The same for whoever only reads: the store does not learn of a new key.
    ///
    /// # Errors
    ///
    /// As [`SealedStore::open`].
    pub async fn reader(store: Arc<dyn Store>, keys: Vec<Key>) -> Result<SealedStore, StoreError> {
        let ring = KeyRing::new(keys)?;
        let given: Vec<KeyId> = ring.ids().collect();
        for KeptSecret { name, value } in wanted(&*store, &given).await? {
            open_secret(&ring, &name, &value)?;
        }
        Ok(SealedStore::over(store, Arc::new(ring)))
    }
}

/// Whether values of the store are encrypted with a key that it needs.
///
/// # Errors
///
/// If the store cannot be read.
pub async fn is_encrypted(store: &dyn Store) -> Result<bool, StoreError> {
    Ok(!of_keys(store).await?.is_empty())
}

/// What the store keeps of the keys that it needs.
pub(super) async fn of_keys(store: &dyn Store) -> Result<Vec<KeptSecret>, StoreError> {
    let all = store.dump(None, 0).await?.into_iter();
    let secrets = all.filter_map(|kept| if let Kept::Secret(secret) = kept { Some(secret) } else { None });
    Ok(secrets.filter(|secret| is_of_a_key(&secret.name) && !secret.value.is_empty()).collect())
}

/// The same, if all of these keys are given.
async fn wanted(store: &dyn Store, given: &[KeyId]) -> Result<Vec<KeptSecret>, StoreError> {
    let of_keys = of_keys(store).await?;
    check_given(of_keys.iter(), given)?;
    Ok(of_keys)
}

/// Whether every key that is needed is given.
pub(in crate::store) fn check_given<'a>(
    secrets: impl Iterator<Item = &'a KeptSecret>,
    given: &[KeyId],
) -> Result<(), StoreError> {
    let needed: Vec<&KeptSecret> = secrets.filter(|secret| !secret.value.is_empty()).collect();
    let ids = needed.iter().filter_map(|secret| secret.name.strip_prefix(OF_A_KEY));
    let missing: Vec<&str> = ids.filter(|id| !given.iter().any(|given| given.to_string() == **id)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let keys = if missing.len() == 1 { "key" } else { "keys" };
    let given: Vec<String> = given.iter().map(KeyId::to_string).collect();
    let given = if given.is_empty() { "no key".to_owned() } else { given.join(", ") };
    Err(StoreError::Keys(format!(
        "the store is encrypted with the {keys} {}, and was given {given}",
        missing.join(", ")
    )))
}

/// Whether what is kept under this name is about a key.
pub(in crate::store) fn is_of_a_key(name: &str) -> bool {
    name.starts_with(OF_A_KEY)
}

pub(super) fn name_of(key: KeyId) -> String {
    format!("{OF_A_KEY}{key}")
}

fn check(keys: &KeyRing, name: &str) -> Result<Vec<u8>, StoreError> {
    seal_secret(keys, name, CHECK)
}

/// Encrypts a secret of the store.
pub(super) fn seal_secret(keys: &KeyRing, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
    let sealed = keys.close(value, &bound_to(name));
    let sealed = sealed.map_err(|error| StoreError::Failed(format!("the secret {name}: {error}")))?;
    Ok(sealed.into_bytes())
}

/// Decrypts a secret of the store, or gives it back as it is.
pub(super) fn open_secret(keys: &KeyRing, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
    match sealed_text(value) {
        Some(text) => keys
            .open(text, &bound_to(name))
            .map_err(|why| StoreError::Keys(format!("the store's secret {name} cannot be decrypted: {why}"))),
        None => Ok(value.to_vec()),
    }
}

/// The text of an encrypted secret.
pub(super) fn sealed_text(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(value).ok().filter(|text| is_sealed(text))
}

fn bound_to(name: &str) -> Vec<u8> {
    [b"secret\0", name.as_bytes()].concat()
}
