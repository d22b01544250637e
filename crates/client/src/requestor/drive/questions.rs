//! The questions of one call: each is asked once and answered once, by whatever way it came.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use taskgate_task::Payload;
use taskgate_wire::dialect::d2025_10_20;
use taskgate_wire::{Id, RawObject, RpcError, hosted, meta, method};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};

use super::super::builder::Answering;
use super::super::connect::Inner;
use super::super::endpoint::hex;
use super::super::event::Event;
use super::super::feed::Feed;
use super::super::hosting::{Host, with_related};
use super::super::input::{Input, InputAnswer};
use crate::session::{Question, QuestionReply};

/// A call that asks more often than this asks nobody in particular.
const MOST: usize = 1024;

/// The questions of one call.
pub(super) struct Questions {
    inner: Arc<Inner>,
    feed: Arc<Feed>,
    open: HashMap<String, Open>,
    /// Keys that were asked, of those that the server keeps a list of: it never uses one twice.
    asked: HashSet<String>,
    answers: JoinSet<(String, Option<InputAnswer>)>,
    /// Answers to questions that came by a stream, and the stream: if that was cut off, the server may ask again.
    given: HashMap<String, (u64, InputAnswer)>,
    stream: u64,
    /// Whether the call is a task: then its questions can be answered from elsewhere, and later.
    is_task: bool,
    /// Questions of the stream that were left to others.
    left: Vec<Reply>,
    /// Questions that are tasks by the names their server has given them (2025-10-20): taking such a question back cancels its task.
    named: HashMap<Id, String>,
}

/// A question that somebody is thinking about.
struct Open {
    method: String,
    way: Way,
    thinking: AbortHandle,
}

/// How the answer gets to the server.
enum Way {
    /// As the response to its request.
    Reply { id: Id, reply: Reply },
    /// The stream it came by has ended. The server asks again.
    Lost,
    /// By a request of ours.
    Listed,
}

/// The way back to a question that came by a stream.
struct Reply {
    reply: QuestionReply,
    /// The task that it names, as its answer has to.
    related: Option<String>,
}

/// An answer that is to be sent with a request of ours.
pub(super) struct Answered {
    /// The question.
    pub(super) key: String,
    /// The result; or why there is none.
    pub(super) answer: Result<Payload, String>,
}

/// Shows a question to the handler or, where there is none, to whoever follows the call.
fn show(inner: &Inner, feed: &Feed, input: Input) -> Option<Answering> {
    match &inner.handler {
        Some(handler) => Some(handler(input)),
        None => {
            feed.push(Event::Asked(input));
            None
        }
    }
}

impl Questions {
    pub(super) fn new(inner: Arc<Inner>, feed: Arc<Feed>) -> Questions {
        Questions {
            inner,
            feed,
            open: HashMap::new(),
            asked: HashSet::new(),
            answers: JoinSet::new(),
            given: HashMap::new(),
            stream: 0,
            is_task: false,
            left: Vec::new(),
            named: HashMap::new(),
        }
    }

    /// The call has become a task.
    pub(super) fn of_task(&mut self) {
        self.is_task = true;
    }

    /// Notes questions that were answered in an earlier life of the call.
    pub(super) fn remember(&mut self, keys: impl IntoIterator<Item = String>) {
        self.asked.extend(keys);
    }

    /// A question that came by a stream.
    pub(super) fn live(&mut self, question: Question) {
        let Question { id, method, params, reply } = question;
        let related = params.as_ref().and_then(related_task);
        let params = params.map(|params| meta::without(meta::RELATED_TASK, params));
        let params = params.map(|params| meta::without(d2025_10_20::RELATED_TASK, params));
        let params = params.map(meta::without_progress_token);
        if let Err(missing) = self.inner.able.allow(&method, params.as_ref()) {
            let why = format!("This client did not declare {missing}");
            return reply.refuse(refusal(&why));
        }
        if !method::is_question(&method) {
            return reply.refuse(RpcError::method_not_found(&method).to_payload());
        }
        if let Some(host) = self.inner.host.clone() {
            match Host::named(&method, params.as_ref()) {
                Ok(None) => {}
                Err(error) => return reply.refuse(error.to_payload()),
                Ok(Some(wanted)) => {
                    let (inner, feed) = (self.inner.clone(), self.feed.clone());
                    let (task, ask) = (wanted.id.clone(), move |input| show(&inner, &feed, input));
                    if host.begin_named(wanted, method, params, ask, reply) {
                        self.named.insert(id, task);
                    }
                    return;
                }
            }
        }
        if let Some(host) = self.inner.host.clone()
            && let Some(wish) = Host::wish(&method, params.as_ref())
        {
            let (inner, feed) = (self.inner.clone(), self.feed.clone());
            let ask = move |input| show(&inner, &feed, input);
            return host.begin(&wish, method, params, ask, |answer| match answer {
                Ok(handle) => reply.answer(handle),
                Err(error) => reply.refuse(error),
            });
        }
        let mut key = key_of(&method, params.as_ref());
        let reply = Reply { reply, related };
        // What a person has said, or is thinking about, is not asked again because a stream was cut off.
        if let Some((_, answer)) = self.given.remove(&key).filter(|(stream, _)| *stream != self.stream) {
            return self.say(&key, &method, reply, answer);
        }
        if let Some(open) = self.open.get_mut(&key).filter(|open| !matches!(open.way, Way::Listed)) {
            if matches!(open.way, Way::Lost) {
                open.way = Way::Reply { id, reply };
                return;
            }
            // The same words twice at a time are two questions.
            key = (2..).map(|n| format!("{key}-{n}")).find(|key| !self.open.contains_key(key)).unwrap_or(key);
        }
        if self.open.len() >= MOST {
            return reply.reply.refuse(refusal("Too many questions are open"));
        }
        self.ask(key, method, params, Way::Reply { id, reply });
    }

    /// The server takes a question back.
    pub(super) fn withdrawn(&mut self, id: &Id) {
        if let Some(task) = self.named.remove(id)
            && let Some(host) = &self.inner.host
        {
            return host.cancel_named(task);
        }
        let its = |(key, open): (&String, &Open)| match &open.way {
            Way::Reply { id: known, .. } if known == id => Some(key.clone()),
            _ => None,
        };
        if let Some(open) = self.open.iter().find_map(its).and_then(|key| self.open.remove(&key)) {
            open.thinking.abort();
        }
    }

    /// The stream that questions came by has ended before the answers: those who are asked go on thinking.
    pub(super) fn stream_ended(&mut self) {
        self.stream += 1;
        self.left.clear();
        for open in self.open.values_mut() {
            if matches!(open.way, Way::Reply { .. }) {
                open.way = Way::Lost;
            }
        }
    }

    /// The task goes on: its questions have been answered, and one in the same words is another one.
    pub(super) fn settled(&mut self) {
        self.given.clear();
        let lost: Vec<_> = self.open.iter().filter(|(_, open)| matches!(open.way, Way::Lost)).collect();
        let lost: Vec<_> = lost.into_iter().map(|(key, _)| key.clone()).collect();
        lost.iter().filter_map(|key| self.open.remove(key)).for_each(|open| open.thinking.abort());
    }

    /// The questions that are open now, by key: asks those that are new, takes back those that are gone.
    ///
    /// # Errors
    ///
    /// What cannot be asked.
    pub(super) fn listed(&mut self, requests: Option<&Payload>) -> Result<(), String> {
        let requests = requests.map(|requests| RawObject::parse(requests.as_str())).transpose();
        let requests = requests.map_err(|error| format!("the questions cannot be read: {error}"))?;
        let requests = requests.unwrap_or_default();
        let gone: Vec<_> = self
            .open
            .iter()
            .filter(|(key, open)| matches!(open.way, Way::Listed) && requests.get(key).is_none())
            .map(|(key, _)| key.clone())
            .collect();
        gone.iter().filter_map(|key| self.open.remove(key)).for_each(|open| open.thinking.abort());
        for (key, request) in requests.iter() {
            if self.asked.contains(key) {
                continue;
            }
            if self.asked.len() >= MOST {
                return Err("the server does not stop asking".to_owned());
            }
            let read = RawObject::parse(request.get()).ok();
            let read = read.and_then(|request| {
                let method = serde_json::from_str::<String>(request.get("method")?.get()).ok()?;
                Some((method, request.get("params").map(Payload::from_raw)))
            });
            let Some((method, params)) = read else {
                return Err(format!("the question {key:?} cannot be read"));
            };
            if !method::is_question(&method) {
                return Err(format!("{method} is no question"));
            }
            if let Err(missing) = self.inner.able.allow(&method, params.as_ref()) {
                return Err(format!("this client did not declare {missing}"));
            }
            self.asked.insert(key.to_owned());
            self.ask(key.to_owned(), method, params.map(meta::without_progress_token), Way::Listed);
        }
        Ok(())
    }

    /// How many questions of a list are open.
    pub(super) fn listed_open(&self) -> usize {
        self.open.values().filter(|open| matches!(open.way, Way::Listed)).count()
    }

    /// The server begins a list anew: keys of the one before mean nothing in it.
    pub(super) fn begin_list(&mut self) {
        self.asked.clear();
    }

    /// Resolves when there is an answer that is to be sent with a request. Cancel safe.
    pub(super) async fn next(&mut self) -> Answered {
        loop {
            let (key, answer) = match self.answers.join_next().await {
                Some(Ok(answered)) => answered,
                // Taken back.
                Some(Err(_)) => continue,
                None => std::future::pending().await,
            };
            let Some(Open { method, way, .. }) = self.open.remove(&key) else { continue };
            let (answer, way) = match (answer, way) {
                (Some(answer), way) => (answer, way),
                // Whoever was asked leaves it to others. It stays open, and its stream must not take that for an answer.
                (None, Way::Reply { reply, .. }) if self.is_task => {
                    self.left.push(reply);
                    continue;
                }
                (None, _) if self.is_task => continue,
                (None, way) => (InputAnswer::Cancel, way),
            };
            match way {
                Way::Listed => return Answered { answer: answer.into_result(&method), key },
                Way::Reply { reply, .. } => self.say(&key, &method, reply, answer),
                Way::Lost => {
                    self.given.insert(key, (self.stream.wrapping_sub(1), answer));
                }
            }
        }
    }

    fn say(&mut self, key: &str, method: &str, reply: Reply, answer: InputAnswer) {
        self.given.insert(key.to_owned(), (self.stream, answer.clone()));
        let Reply { reply, related } = reply;
        match (answer.into_result(method), related) {
            (Ok(result), Some(task)) => reply.answer(with_related(&task, result)),
            (Ok(result), None) => reply.answer(result),
            (Err(why), _) => reply.refuse(refusal(&why)),
        }
        self.feed.push(Event::Answered(key.to_owned()));
    }

    /// Hands a question to the program: to its handler, which answers in time, or as an event.
    fn ask(&mut self, key: String, method: String, params: Option<Payload>, way: Way) {
        let (reply, answer) = oneshot::channel();
        let input = Input { key: key.clone(), method: method.clone(), params, reply };
        let asked = key.clone();
        let thinking = match show(&self.inner, &self.feed, input) {
            None => self.answers.spawn(async move { (asked, answer.await.ok()) }),
            Some(handled) => {
                self.answers.spawn(async move {
                    // In a set of its own, so that a handler that panics has not answered, and one nobody waits for ends.
                    let mut handling = JoinSet::new();
                    handling.spawn(handled);
                    let answered = tokio::select! {
                        biased;
                        Ok(answered) = answer => answered,
                        handled = handling.join_next() => match handled {
                            Some(Ok(answered)) => answered,
                            Some(Err(_)) | None => InputAnswer::Cancel,
                        },
                    };
                    (asked, Some(answered))
                })
            }
        };
        self.open.insert(key, Open { method, way, thinking });
    }
}

/// The task that a question names (2025-11-25).
fn related_task(params: &Payload) -> Option<String> {
    let params = RawObject::parse(params.as_str()).ok()?;
    let named = RawObject::parse(params.get("_meta")?.get()).ok()?.get(meta::RELATED_TASK)?.to_owned();
    hosted::told_of(&Payload::from(named))
}

/// What a question that comes by a stream is known by: the same words have the same key.
pub(in super::super) fn key_of(method: &str, params: Option<&Payload>) -> String {
    let params = params.cloned().map(|params| meta::without(meta::RELATED_TASK, params));
    let params = params.map(meta::without_progress_token);
    let mut digest = Sha256::new();
    digest.update(method.as_bytes());
    digest.update(params.as_ref().map_or("", Payload::as_str).as_bytes());
    format!("{method}#{}", hex(&digest.finalize()[..4]))
}

/// The error object for a question that was put to somebody and has no answer (2025-11-25, sampling: -1).
pub(in super::super) fn refusal(why: &str) -> Payload {
    Payload::from_value(&serde_json::json!({ "code": -1, "message": why }))
        .unwrap_or_else(|_| Payload::null())
}
