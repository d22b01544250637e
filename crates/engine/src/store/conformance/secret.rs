//! The store's own secrets.

use std::thread;

use crate::Store;

/// Whoever asks, and however many at once, gets the same secret under the same name.
pub async fn a_secret_is_made_once<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let all: Vec<[u8; 32]> = thread::scope(|scope| {
        let threads = [(); 8].map(|()| scope.spawn(|| store.secret("seal").unwrap()));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(all.iter().all(|secret| *secret == all[0] && *secret != [0; 32]));
    assert_ne!(store.secret("cursor").unwrap(), all[0]);
    assert_ne!(make().secret("seal").unwrap(), all[0]);
}
