//! Where an API can say that there is news of a job. What it says is not believed: the job is looked at.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use parking_lot::Mutex;
use sha2::Sha256;
use taskgate_engine::{Engine, StoreError};
use tokio::sync::Notify;

/// The part of the path before the token.
pub const PATH: &str = "/callbacks/";

/// The addresses of the jobs that run here.
///
/// An address is the same for a job whoever follows it, so that a start that is repeated sends the same. It is signed with a
/// secret of the store: nobody can guess one, nor tell one job's from its key.
pub struct Callbacks {
    public_url: String,
    secret: [u8; 32],
    waiting: Mutex<HashMap<String, Arc<Notify>>>,
}

/// Hears of news of one job, until it is dropped.
pub struct Hearing {
    callbacks: Arc<Callbacks>,
    token: String,
    news: Arc<Notify>,
}

impl Callbacks {
    /// Under this public address of ours.
    pub async fn new(engine: &Engine, public_url: &str) -> Result<Arc<Callbacks>, StoreError> {
        let secret = engine.store().secret("job-callbacks").await?;
        let public_url = public_url.trim_end_matches('/').to_owned();
        Ok(Arc::new(Callbacks { public_url, secret, waiting: Mutex::default() }))
    }

    /// The address of the job with this key.
    pub fn url(&self, key: &str) -> Option<String> {
        Some(format!("{}{PATH}{}", self.public_url, self.token(key)?))
    }

    fn token(&self, key: &str) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).ok()?;
        mac.update(key.as_bytes());
        Some(URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }

    /// Listens for news of the job with this key.
    pub fn listen(self: &Arc<Self>, key: &str) -> Option<Hearing> {
        let token = self.token(key)?;
        let news = self.waiting.lock().entry(token.clone()).or_default().clone();
        Some(Hearing { callbacks: self.clone(), token, news })
    }

    /// There is news of the job with this token; whether anybody here follows it.
    pub fn tell(&self, token: &str) -> bool {
        let waiting = self.waiting.lock();
        // Told before anybody waits, it is heard as soon as somebody does.
        waiting.get(token).inspect(|news| news.notify_one()).is_some()
    }
}

impl Hearing {
    /// Resolves when there is news.
    pub async fn news(&self) {
        self.news.notified().await;
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        let mut waiting = self.callbacks.waiting.lock();
        // Ours, the map's: nobody else hears of it.
        if waiting.get(&self.token).is_some_and(|news| Arc::strong_count(news) <= 2) {
            waiting.remove(&self.token);
        }
    }
}
