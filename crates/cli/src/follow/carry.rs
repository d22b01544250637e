use taskgate_client::{CallError, CallResult, Event, Handle, PendingCall};
use tokio::sync::mpsc;

use super::{End, Followed};
use crate::endpoint::Named;
use crate::handle::Token;

/// What is wanted of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Its end.
    Cancel,
    /// Nothing more.
    Detach,
}

/// What happened to a call.
#[derive(Debug)]
pub enum Told {
    /// Something on the way.
    Event(Event),
    /// Its end.
    Ended(Result<CallResult, CallError>),
    /// It is not followed any more.
    Detached(Option<Handle>),
}

/// A call that is followed, and what is known of it.
#[derive(Debug)]
pub struct Carried {
    /// How its server was named.
    pub named: Named,
    /// The way back, once there is one.
    pub token: Option<Token>,
    /// The keys of questions that are answered and whose answers the server has not confirmed.
    pub open: Vec<String>,
    /// What came of it.
    pub end: Option<End>,
    wish: Option<Wish>,
    wishes: mpsc::UnboundedSender<Wish>,
}

impl Carried {
    /// Begins to follow.
    pub fn new(place: usize, followed: Followed, tell: mpsc::Sender<(usize, Told)>) -> Carried {
        let (wishes, wanted) = mpsc::unbounded_channel();
        let token = followed.call.handle().map(|handle| Token::new(handle, &followed.named));
        tokio::spawn(carry(place, followed.call, wanted, tell));
        Carried { named: followed.named, token, open: Vec::new(), end: None, wish: None, wishes }
    }

    /// Wants something of it. Whoever has wanted its end can still want nothing more.
    pub fn wish(&mut self, wish: Wish) {
        self.wish = Some(wish);
        // It may be over.
        let _ = self.wishes.send(wish);
    }

    /// Whether anything else than its result is wanted.
    pub fn has_wish(&self) -> bool {
        self.wish.is_some()
    }
}

async fn carry(
    place: usize,
    mut call: PendingCall,
    mut wanted: mpsc::UnboundedReceiver<Wish>,
    tell: mpsc::Sender<(usize, Told)>,
) {
    let last = loop {
        tokio::select! {
            event = call.next() => match event {
                Some(Event::Done) | None => break Told::Ended(call.result().await),
                // Whoever is told may have gone, and then this call is left as well.
                Some(event) => if tell.send((place, Told::Event(event))).await.is_err() { return },
            },
            wish = wanted.recv() => match wish {
                Some(Wish::Cancel) => call.request_cancel(),
                Some(Wish::Detach) | None => break Told::Detached(call.detach()),
            },
        }
    };
    let _ = tell.send((place, last)).await;
}
