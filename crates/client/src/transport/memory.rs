//! A connection within this process, for servers that live here and for tests.

use taskgate_wire::Message;
use tokio::sync::mpsc;

use super::{Inbound, Link};

/// The server's end of a connection in memory. Dropping it closes the connection.
#[derive(Debug)]
pub struct FarEnd {
    /// What the client sent.
    pub inbox: mpsc::Receiver<Message>,
    /// What goes to the client, already in the form it arrives in: that way nothing has to be pumped from one
    /// channel to another.
    pub out: mpsc::Sender<Inbound>,
}

/// Both ends of a connection that holds up to `capacity` messages in each direction.
pub fn pair(capacity: usize) -> (Link, FarEnd) {
    let (to_server, inbox) = mpsc::channel(capacity.max(1));
    let (out, inbound) = mpsc::channel(capacity.max(1));
    (Link { out: to_server, inbound, control: None, farewell: None, named: None }, FarEnd { inbox, out })
}
