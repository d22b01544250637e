use super::unlock::{is_of_a_key, name_of, of_keys, open_secret, seal_secret, sealed_text};
use super::{KeyId, SealedStore};
use crate::store::{Kept, KeptSecret, KeptTask, StoreError};

/// How many tasks are read at once, and written in one commit.
const BATCH: usize = 200;
/// How often a store is gone through in which tasks move meanwhile.
const MOST_PASSES: u32 = 20;

/// What came of encrypting a store anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resealed {
    /// How many tasks had values of another key, or of none.
    pub tasks: u64,
    /// How many secrets of the store had.
    pub secrets: u64,
    /// Whether any value had not been encrypted at all: what was written over may still lie in the store's free space.
    pub had_plain: bool,
    /// What could not be decrypted and stays as it is, a line for people for each task.
    pub left: Vec<String>,
    /// The keys that no value needs any more.
    pub dropped: Vec<KeyId>,
}

impl SealedStore {
    /// Encrypts with the first key whatever another key has encrypted, or none. Afterwards the others are no longer needed,
    /// unless something could not be decrypted.
    ///
    /// Each commit leaves the store whole, so whoever was interrupted begins again. In a store that others use, all of them
    /// must encrypt with the same key already.
    ///
    /// # Errors
    ///
    /// What the store says; what was done until then stays.
    pub async fn reseal(&self) -> Result<Resealed, StoreError> {
        let mut done = Resealed::default();
        let mut passes = 0;
        while self.pass(&mut done).await? > 0 {
            passes += 1;
            if passes == MOST_PASSES {
                return Err(StoreError::Failed(
                    "tasks change faster than they can be encrypted anew; do it again when less goes on"
                        .to_owned(),
                ));
            }
        }
        if done.left.is_empty() {
            done.dropped = self.drop_keys().await?;
        }
        Ok(done)
    }

    /// Looks whether everything opens, and says what does not, a line for people each.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub async fn check(&self) -> Result<Vec<String>, StoreError> {
        let (mut wrong, mut after) = (Vec::new(), None);
        loop {
            let (mut last, mut page) = (None, self.beneath.dump(after, BATCH).await?);
            for kept in &mut page {
                let opened = match kept {
                    Kept::Secret(KeptSecret { name, value }) => {
                        open_secret(&self.keys, name, value).map(drop)
                    }
                    Kept::Task(kept) => {
                        last = Some(kept.task.id.locator());
                        self.keys.open_kept(kept)
                    }
                };
                wrong.extend(opened.err().map(|error| error.to_string()));
            }
            if last.is_none() {
                return Ok(wrong);
            }
            after = last;
        }
    }

    /// Goes through the store once. How many tasks moved meanwhile, and must be looked at again.
    async fn pass(&self, done: &mut Resealed) -> Result<usize, StoreError> {
        let (mut moved, mut after) = (0, None);
        done.left.clear();
        loop {
            let (mut last, mut renewed) = (None, Vec::new());
            for kept in self.beneath.dump(after, BATCH).await? {
                match kept {
                    Kept::Secret(secret) => self.reseal_secret(secret, done).await?,
                    Kept::Task(mut kept) => {
                        last = Some(kept.task.id.locator());
                        match self.keys.renew_kept(&mut kept) {
                            Ok(what) if what.any => {
                                done.had_plain |= what.plain;
                                renewed.push(*kept);
                            }
                            Ok(_) => {}
                            Err(error) => done.left.push(error.to_string()),
                        }
                    }
                }
            }
            let (wanted, written) = (renewed.len(), self.rewrite_beneath(renewed).await?);
            done.tasks += written as u64;
            moved += wanted - written.min(wanted);
            if last.is_none() {
                return Ok(moved);
            }
            after = last;
        }
    }

    async fn rewrite_beneath(&self, renewed: Vec<KeptTask>) -> Result<usize, StoreError> {
        if renewed.is_empty() { Ok(0) } else { self.beneath.rewrite(renewed).await }
    }

    async fn reseal_secret(&self, secret: KeptSecret, done: &mut Resealed) -> Result<(), StoreError> {
        let KeptSecret { name, value } = secret;
        let text = sealed_text(&value);
        if is_of_a_key(&name) || text.is_some_and(|text| self.keys.is_current(text)) {
            return Ok(());
        }
        done.had_plain |= text.is_none();
        let value = seal_secret(&self.keys, &name, &open_secret(&self.keys, &name, &value)?)?;
        self.beneath.load(vec![Kept::Secret(KeptSecret { name, value })]).await?;
        done.secrets += 1;
        Ok(())
    }

    /// Notes that only the first key is needed.
    async fn drop_keys(&self) -> Result<Vec<KeyId>, StoreError> {
        let needed = of_keys(&*self.beneath).await?;
        let mut dropped = Vec::new();
        for id in self.keys.ids().skip(1) {
            let name = name_of(id);
            if needed.iter().any(|secret| secret.name == name) {
                let kept = KeptSecret { name, value: Vec::new() };
                self.beneath.load(vec![Kept::Secret(kept)]).await?;
                dropped.push(id);
            }
        }
        Ok(dropped)
    }
}
