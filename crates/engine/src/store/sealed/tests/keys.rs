//! The keys, and what a store says of them.

use super::*;
use crate::store::unlock;

async fn refusal(beneath: &MemoryStore, keys: &[u8]) -> String {
    let keys = keys.iter().copied().map(key).collect();
    match unlock(Arc::new(beneath.clone()), keys).await {
        Err(StoreError::Keys(why)) => why,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it opened"),
    }
}

#[test]
fn a_key_is_read_as_people_keep_it() {
    let base64 = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    for text in [base64, base64.trim_end_matches('='), &"01".repeat(32)] {
        assert_eq!(Key::parse(text).unwrap().id(), key(1).id(), "{text}");
    }
    let standard = "+/v7".repeat(10) + "+/s=";
    for text in [standard.replace('+', "-").replace('/', "_"), standard] {
        assert_eq!(Key::parse(&text).unwrap().id(), key(0xfb).id(), "{text}");
    }
    for wrong in ["", "short", &"0".repeat(63), &"g".repeat(64), &base64[4..], &format!("{base64}AAAA")] {
        let why = Key::parse(wrong).unwrap_err();
        assert!(
            why.contains("openssl rand -base64 32") && (wrong.is_empty() || !why.contains(wrong)),
            "{why}"
        );
    }
    assert_ne!(key(1).id(), key(2).id());
    let id = key(1).id().to_string();
    assert_eq!((id.len(), format!("{:?}", key(1))), (16, format!("Key({id})")));
    // It stands in every value, so it must never be computed differently.
    assert_eq!(id, "c7f644192fa95f21");
}

/// A start with other keys than the store needs fails at once, and says which it needs.
#[tokio::test]
async fn a_missing_key_is_named() {
    let beneath = MemoryStore::new();
    let store = open(Arc::new(beneath.clone()), &[1]).await.unwrap();
    let id = store.create(new_task(1)).await.unwrap().id;
    let (one, two) = (key(1).id().to_string(), key(2).id().to_string());
    let none = refusal(&beneath, &[]).await;
    assert!(none.contains(&one) && none.contains("no key"), "{none}");
    let wrong = refusal(&beneath, &[2]).await;
    assert!(wrong.contains(&one) && wrong.contains(&two), "{wrong}");
    // Nothing of this has left a trace.
    let again = open(Arc::new(beneath.clone()), &[1]).await.unwrap();
    assert_eq!(
        again.get(id).await.unwrap().unwrap().status_message.unwrap(),
        format!("{SENTINEL} first message")
    );
}

/// A store without a key needs none, and one that only looks leaves nothing.
#[tokio::test]
async fn a_store_without_a_key_needs_none() {
    let beneath = MemoryStore::new();
    let store = unlock(Arc::new(beneath.clone()), Vec::new()).await.unwrap();
    let id = store.create(new_task(1)).await.unwrap().id;
    let reader = SealedStore::reader(Arc::new(beneath.clone()), vec![key(1)]).await.unwrap();
    assert_eq!(reader.get(id).await.unwrap(), store.get(id).await.unwrap());
    assert!(unlock(Arc::new(beneath), Vec::new()).await.is_ok());
}

/// Somebody who makes up what is kept of a key does not make the key the right one.
#[tokio::test]
async fn what_is_kept_of_a_key_cannot_be_made_up() {
    let beneath = MemoryStore::new();
    let name = format!("encryption-key/{}", key(1).id());
    let value = format!("tgs1:{}:{}", key(1).id(), "A".repeat(80)).into_bytes();
    let kept = crate::store::KeptSecret { name, value };
    beneath.load(vec![Kept::Secret(kept)]).await.unwrap();
    let why = refusal(&beneath, &[1]).await;
    assert!(why.contains("cannot be decrypted"), "{why}");
}

/// What is encrypted with keys of its own is carried over as it is, beneath; never twice.
#[tokio::test]
async fn an_export_beneath_stays_encrypted_and_opens_elsewhere() {
    let (one, other) = (MemoryStore::new(), MemoryStore::new());
    let store = open(Arc::new(one.clone()), &[1]).await.unwrap();
    fill(&store).await;
    let secret = store.secret("request-state").await.unwrap();
    let export = seen(&one).await;
    let twice = crate::store::transfer::import(&store, export.as_bytes(), 1 << 30).await;
    assert!(twice.is_err());
    crate::store::transfer::import(&other, export.as_bytes(), 1 << 30).await.unwrap();
    assert!(refusal(&other, &[2]).await.contains(&key(1).id().to_string()));
    let opened = open(Arc::new(other), &[1]).await.unwrap();
    assert_eq!(everything(&opened).await, everything(&store).await);
    assert_eq!(opened.secret("request-state").await.unwrap(), secret);
}
