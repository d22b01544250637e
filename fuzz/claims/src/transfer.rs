//! Exports that are taken from anywhere: what is taken holds together, and comes out again as it went in.

use arbitrary::Unstructured;
use taskgate_engine::store::transfer::{TransferError, export, import};
use taskgate_engine::store::{Kept, StoreError};
use taskgate_engine::{MemoryStore, Store};

use crate::operations;
use crate::pieces::{now_or_never as get, split};

/// The longest line that is allowed here.
const LONGEST: usize = 100_000;

pub fn check(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    if kind % 4 == 0 {
        taken(rest);
        return;
    }
    // What a store holds, whatever has happened there, comes through whole.
    let (changes, life) = split(rest, 24);
    let store = operations::lived(&mut Unstructured::new(life));
    get(store.secret("seal")).unwrap();
    let mut text = Vec::new();
    let counted = get(export(&store, &mut text)).unwrap();
    let other = MemoryStore::new();
    assert_eq!(get(import(&other, &text[..], LONGEST)).unwrap(), counted);
    assert_eq!(dump(&other), dump(&store));
    // And the same with a few bytes of it changed.
    for change in changes.chunks_exact(3) {
        let place = usize::from(u16::from_be_bytes([change[0], change[1]])) % text.len();
        text[place] = change[2];
    }
    taken(&text);
}

fn taken(text: &[u8]) {
    let store = MemoryStore::new();
    match get(import(&store, text, LONGEST)) {
        Ok(counted) => {
            let kept = dump(&store);
            let tasks = kept.iter().filter(|kept| matches!(kept, Kept::Task(_))).count();
            assert_eq!(tasks as u64, counted.tasks);
            for kept in &kept {
                if let Kept::Task(kept) = kept {
                    assert_eq!(kept.flaws(), Vec::<String>::new());
                }
            }
            let mut again = Vec::new();
            get(export(&store, &mut again)).unwrap();
            let other = MemoryStore::new();
            get(import(&other, &again[..], LONGEST)).unwrap();
            assert_eq!(dump(&other), kept);
        }
        Err(error) => {
            // The lines may be secret, and are not repeated.
            let said = error.to_string();
            assert!(said.len() < 500, "{said}");
            let is_expected = match &error {
                TransferError::Malformed { line, .. } | TransferError::TooLong { line, .. } => *line > 0,
                TransferError::NotAnExport | TransferError::Version(_) | TransferError::CutOff(_) => true,
                TransferError::Store { first, last, error } => {
                    first <= last
                        && matches!(
                            error,
                            StoreError::KeyTaken { .. } | StoreError::TooLong(_) | StoreError::IdTaken
                        )
                }
                _ => false,
            };
            assert!(is_expected, "{error:?}");
        }
    }
}

fn dump(store: &MemoryStore) -> Vec<Kept> {
    let mut all = get(store.dump(None, 1000)).unwrap();
    // Secrets come in no order.
    all.sort_by_key(|kept| match kept {
        Kept::Secret(secret) => (0, secret.name.clone()),
        Kept::Task(kept) => (kept.task.id.locator(), String::new()),
    });
    all
}
