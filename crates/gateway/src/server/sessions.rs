use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use taskgate_task::{Owner, Payload};
use taskgate_wire::method;

use crate::gateway::Gateway;
use crate::policy::{Bind, Settings};
use crate::random::random;
use crate::route::is_at_least;
use crate::session::Session;

/// The sessions of the HTTP server. They hold no tasks, so losing them loses nothing but streams.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<String, Arc<Session>>>);

/// Why no session could be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There are as many as there may be.
    #[error("This server has max_sessions ({0}) open sessions; try again when one of them has ended")]
    Full(usize),
    /// The system gives no random numbers.
    #[error("no randomness: {0}")]
    Randomness(#[from] getrandom::Error),
}

impl Sessions {
    /// Opens a session with an id of 128 random bits.
    pub fn open(&self, owner: Owner, settings: &Settings) -> Result<Arc<Session>, OpenError> {
        let mut tag = [0; 4];
        getrandom::fill(&mut tag)?;
        let id = random()?;
        let mut sessions = self.0.lock();
        if sessions.len() >= settings.max_sessions && !make_room(&mut sessions, settings) {
            return Err(OpenError::Full(settings.max_sessions));
        }
        let owner = match settings.bind {
            Bind::Session if owner.is_anonymous() => owner_of(&id),
            Bind::Session | Bind::Owner => owner,
        };
        let (streams, most) = (settings.streams.clone(), settings.session_requests);
        let session = Session::over_http(id.clone(), u32::from_be_bytes(tag), owner, streams, most);
        sessions.insert(id, session.clone());
        Ok(session)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// The session with this id.
    pub fn find(&self, id: &str) -> Option<Arc<Session>> {
        let session = self.0.lock().get(id).cloned()?;
        session.touch();
        Some(session)
    }

    /// Whether there is a session with this id, and it is not this owner's. It stays as idle as it is.
    pub fn belongs_to_another(&self, id: &str, owner: &Owner) -> bool {
        self.0.lock().get(id).is_some_and(|session| session.owner() != owner)
    }

    /// Ends a session; `false` if there is none.
    pub fn end(&self, id: &str) -> bool {
        let session = self.0.lock().remove(id);
        if let Some(session) = &session {
            session.end();
        }
        session.is_some()
    }

    /// Ends what nobody has used for so long, and forgets streams that nobody came back to.
    pub fn tidy(&self, settings: &Settings) {
        self.0.lock().retain(|_, session| {
            let idle = session.is_idle(settings.session_idle);
            if idle {
                session.end();
            } else {
                session.streams().drop_expired();
            }
            !idle
        });
    }

    /// Resolves when every request in every session has been answered.
    pub async fn quiet(&self) {
        let all: Vec<Arc<Session>> = self.0.lock().values().cloned().collect();
        for session in all {
            session.quiet().await;
        }
    }

    /// Ends all.
    pub fn end_all(&self) {
        for (_, session) in self.0.lock().drain() {
            session.end();
        }
    }
}

/// Who a session is to its tasks. The id itself is a secret, and owners stand in lists of operators.
fn owner_of(session: &str) -> Owner {
    let digest = Sha256::digest(session.as_bytes());
    let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Owner::named(&format!("session {name}"))
}

/// Ends the session that only its tasks keep from being idle, of several the one unused for longest; `false` if there is
/// none. Tasks may take months, and clients that never come back must not shut out those that come.
fn make_room(sessions: &mut HashMap<String, Arc<Session>>, settings: &Settings) -> bool {
    let held = sessions.values().filter_map(|session| Some((session.unused_for()?, session)));
    let held = held.filter(|(unused, _)| *unused >= settings.session_idle);
    let Some(id) = held.max_by_key(|(unused, _)| *unused).map(|(_, session)| session.id().to_owned()) else {
        return false;
    };
    if let Some(session) = sessions.remove(&id) {
        session.end();
    }
    true
}

impl Gateway {
    /// Tells a session what the upstreams say that belongs to no call, until it ends.
    pub(super) fn forward_changes(&self, session: &Arc<Session>) {
        let mut changes = self.changes(session.owner());
        let session = session.clone();
        tokio::spawn(async move {
            loop {
                let change = tokio::select! {
                    Some(change) = changes.next() => change,
                    () = session.ended() => return,
                };
                let wanted = match change.method.as_str() {
                    method::RESOURCE_UPDATED => session.is_subscribed(&change),
                    // Nobody knows whose call a stray log message or progress belongs to.
                    method::LOG_MESSAGE => {
                        !session.owner().is_anonymous() && wants_log(&session, change.params.as_ref())
                    }
                    method::PROGRESS => false,
                    _ => true,
                };
                if wanted {
                    session.notify(&change.method, change.params);
                }
            }
        });
    }
}

/// Whether a message is urgent enough for the session's client.
fn wants_log(session: &Session, message: Option<&Payload>) -> bool {
    match (session.log_level(), message) {
        (Some(level), Some(message)) => is_at_least(message, level),
        _ => true,
    }
}
