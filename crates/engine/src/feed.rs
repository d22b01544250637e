//! What happened, told to whoever waits for it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_task::{Task, TaskId};
use tokio::sync::mpsc;

/// A committed record, or the news that it was deleted.
#[derive(Debug, Clone)]
pub enum News {
    /// The record as committed.
    Changed(Arc<Task>),
    /// The record is gone.
    Deleted(TaskId),
}

impl News {
    /// Which task it is about.
    pub fn id(&self) -> TaskId {
        match self {
            News::Changed(task) => task.id,
            News::Deleted(id) => *id,
        }
    }
}

/// Hands committed changes to those who follow the task. Nobody following costs one look into an empty map.
///
/// A follower that does not read loses nothing but memory: its queue is unbounded, and followers are bounded by
/// the streams and requests that hold them.
#[derive(Debug, Clone, Default)]
pub struct Feed(Arc<Mutex<Followers>>);

#[derive(Debug, Default)]
struct Followers {
    next: u64,
    by_task: HashMap<TaskId, Vec<(u64, mpsc::UnboundedSender<News>)>>,
}

impl Feed {
    /// A feed that nobody follows yet.
    pub fn new() -> Self {
        Feed::default()
    }

    /// Follows some tasks from now on. To miss nothing, follow first and read the record afterwards; then drop news whose
    /// version is not above the record's.
    pub fn follow(&self, ids: impl IntoIterator<Item = TaskId>) -> Following {
        let (sender, news) = mpsc::unbounded_channel();
        let mut followers = self.0.lock();
        followers.next += 1;
        let number = followers.next;
        let ids: Vec<TaskId> = ids.into_iter().collect();
        for id in &ids {
            followers.by_task.entry(*id).or_default().push((number, sender.clone()));
        }
        Following { feed: self.clone(), number, ids, news, _sender: sender }
    }

    /// Whether anyone follows this task; lets a store skip making the news.
    pub fn is_followed(&self, id: &TaskId) -> bool {
        self.0.lock().by_task.contains_key(id)
    }

    /// Publishes a committed change. Only stores call this, after the commit.
    pub fn publish(&self, news: &News) {
        if let Some(senders) = self.0.lock().by_task.get(&news.id()) {
            for (_, sender) in senders {
                // A follower that went away is removed when it is dropped.
                let _ = sender.send(news.clone());
            }
        }
    }
}

/// Someone who follows tasks; dropping it ends that.
#[derive(Debug)]
pub struct Following {
    feed: Feed,
    number: u64,
    ids: Vec<TaskId>,
    news: mpsc::UnboundedReceiver<News>,
    /// Keeps the queue open for a follower that follows nothing: it waits for ever instead of hearing an end.
    _sender: mpsc::UnboundedSender<News>,
}

impl Following {
    /// The next piece of news. Safe to drop and call again.
    pub async fn next(&mut self) -> Option<News> {
        self.news.recv().await
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut followers = self.feed.0.lock();
        for id in &self.ids {
            if let Some(senders) = followers.by_task.get_mut(id) {
                senders.retain(|(number, _)| *number != self.number);
                if senders.is_empty() {
                    followers.by_task.remove(id);
                }
            }
        }
    }
}
