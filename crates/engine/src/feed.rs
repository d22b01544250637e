//! What happened, told to whoever waits for it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

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
pub struct Feed(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    followers: Mutex<Followers>,
    /// A feed over this one, whose followers want the news in another form.
    above: OnceLock<Above>,
}

#[derive(Debug)]
struct Above {
    feed: Feed,
    form: Form,
}

/// Gives news the form in which it is followed. It may take a while, so whoever follows does it, and not whoever publishes.
#[derive(Clone)]
struct Form(Arc<dyn Fn(News) -> News + Send + Sync>);

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Form")
    }
}

/// News on its way, and what is still to be done to it.
#[derive(Debug)]
struct Told {
    news: News,
    form: Option<Form>,
}

#[derive(Debug, Default)]
struct Followers {
    next: u64,
    /// By locator, which is what other nodes tell.
    by_task: HashMap<i64, Vec<Follower>>,
}

#[derive(Debug)]
struct Follower {
    number: u64,
    id: TaskId,
    sender: mpsc::UnboundedSender<Told>,
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
        let mut followers = self.0.followers.lock();
        followers.next += 1;
        let number = followers.next;
        // Each once: whoever names a task again and again is one follower of it all the same.
        let ids: HashSet<TaskId> = ids.into_iter().collect();
        for id in &ids {
            let follower = Follower { number, id: *id, sender: sender.clone() };
            followers.by_task.entry(id.locator()).or_default().push(follower);
        }
        Following { feed: self.clone(), number, ids, news, _sender: sender }
    }

    /// Whether anyone follows this task; lets a store skip making the news.
    pub fn is_followed(&self, id: &TaskId) -> bool {
        self.0.followers.lock().by_task.contains_key(&id.locator())
            || self.0.above.get().is_some_and(|above| above.feed.is_followed(id))
    }

    /// The tasks that anyone follows, or those of them at these locators.
    pub(crate) fn followed(&self, among: Option<&[i64]>) -> Vec<TaskId> {
        let followers = self.0.followers.lock();
        let first =
            |followers: &Vec<Follower>| followers.iter().map(|follower| follower.id).collect::<Vec<_>>();
        match among {
            Some(locators) => {
                locators.iter().filter_map(|locator| followers.by_task.get(locator)).flat_map(first).collect()
            }
            None => followers.by_task.values().flat_map(first).collect(),
        }
    }

    /// Publishes a committed change. Only stores call this, after the commit.
    pub fn publish(&self, news: &News) {
        self.tell(news, None);
        if let Some(above) = self.0.above.get() {
            above.feed.tell(news, Some(&above.form));
        }
    }

    /// Publishes to `above`, too, what is published here from now on, in another form. Only the first time.
    pub(crate) fn pass_on(&self, above: &Feed, form: impl Fn(News) -> News + Send + Sync + 'static) {
        let above = Above { feed: above.clone(), form: Form(Arc::new(form)) };
        if self.0.above.set(above).is_err() {
            tracing::error!("a store that is used in another form already tells nobody else of its news");
        }
    }

    fn tell(&self, news: &News, form: Option<&Form>) {
        let id = news.id();
        if let Some(followers) = self.0.followers.lock().by_task.get(&id.locator()) {
            // Whoever guessed a locator hears nothing of the task.
            for follower in followers.iter().filter(|follower| follower.id == id) {
                // A follower that went away is removed when it is dropped.
                let _ = follower.sender.send(Told { news: news.clone(), form: form.cloned() });
            }
        }
    }
}

/// Someone who follows tasks; dropping it ends that.
#[derive(Debug)]
pub struct Following {
    feed: Feed,
    number: u64,
    ids: HashSet<TaskId>,
    news: mpsc::UnboundedReceiver<Told>,
    /// Keeps the queue open for a follower that follows nothing: it waits for ever instead of hearing an end.
    _sender: mpsc::UnboundedSender<Told>,
}

impl Following {
    /// The next piece of news. Safe to drop and call again.
    pub async fn next(&mut self) -> Option<News> {
        let Told { news, form } = self.news.recv().await?;
        Some(match form {
            Some(Form(form)) => form(news),
            None => news,
        })
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut followers = self.feed.0.followers.lock();
        for id in &self.ids {
            if let Some(left) = followers.by_task.get_mut(&id.locator()) {
                left.retain(|follower| follower.number != self.number);
                if left.is_empty() {
                    followers.by_task.remove(&id.locator());
                }
            }
        }
    }
}
