//! The store's own secrets.

use futures_util::future::try_join_all;

use crate::Store;

/// Whoever asks, and however many at once, gets the same secret under the same name.
pub async fn a_secret_is_made_once<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let asking = [(); 8].map(|()| tokio::spawn(store.secret("seal")));
    let all = try_join_all(asking).await.unwrap().into_iter().map(Result::unwrap).collect::<Vec<_>>();
    assert!(all.iter().all(|secret| *secret == all[0] && *secret != [0; 32]));
    assert_ne!(store.secret("cursor").await.unwrap(), all[0]);
    assert_ne!(make().secret("seal").await.unwrap(), all[0]);
}
