//! Keys, from where the configuration says they are.

use taskgate_credentials::Source;
use taskgate_engine::Key;

/// Reads the keys, in this order.
///
/// # Errors
///
/// Which one cannot be had, or is no key, and why; nothing of any key.
pub async fn read_keys(sources: &[Source]) -> Result<Vec<Key>, String> {
    let mut keys: Vec<Key> = Vec::with_capacity(sources.len());
    for source in sources {
        let text = source.read().await?;
        let key = Key::parse(&text).map_err(|wrong| format!("what is in {source} {wrong}"))?;
        // Twice the same key is once.
        if keys.iter().all(|known| known.id() != key.id()) {
            keys.push(key);
        }
    }
    Ok(keys)
}
