use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, Client};

use super::backoff::Backoff;
use super::connect::{Connector, Wire};
use super::fault::say;
use super::notify::{self, Teller};
use crate::store::Heard;

/// How often the server is asked whether it is still there: a connection that was cut says nothing.
const ALIVE: Duration = Duration::from_secs(5);

/// Those who want to hear of other nodes, and whether anybody hears for them.
#[derive(Debug, Clone, Default)]
pub(super) struct Listeners(Arc<Mutex<(Vec<mpsc::UnboundedSender<Heard>>, bool)>>);

impl Listeners {
    /// One more. `true` if somebody has to begin to hear for all of them.
    pub(super) fn add(&self) -> (mpsc::UnboundedReceiver<Heard>, bool) {
        let (listener, heard) = mpsc::unbounded_channel();
        let mut listeners = self.0.lock();
        listeners.0.push(listener);
        (heard, !std::mem::replace(&mut listeners.1, true))
    }

    fn tell(&self, heard: &Heard) {
        self.0.lock().0.retain(|listener| listener.send(heard.clone()).is_ok());
    }

    /// Whether nobody listens any more; then whoever comes next finds nobody hearing for him.
    fn is_empty(&self) -> bool {
        let mut listeners = self.0.lock();
        listeners.0.retain(|listener| !listener.is_closed());
        listeners.1 = !listeners.0.is_empty();
        listeners.0.is_empty()
    }
}

/// Hears what other nodes tell, on a connection of its own.
pub(super) struct Listener {
    pub(super) connector: Connector,
    pub(super) channel: String,
    pub(super) teller: Teller,
    pub(super) listeners: Listeners,
}

impl Listener {
    /// Listens while there is anybody to tell.
    pub(super) async fn serve(self) {
        let mut backoff = Backoff::new();
        loop {
            let why = match self.connector.open().await {
                Ok((client, wire)) => tokio::select! {
                    ended = self.listen(&client, &mut backoff) => match ended {
                        Ok(()) => return,
                        Err(why) => why,
                    },
                    why = self.hear(wire) => why,
                },
                Err(why) => why,
            };
            tracing::debug!(%why, "what other nodes do is not heard");
            if self.listeners.is_empty() {
                return;
            }
            sleep(backoff.next()).await;
        }
    }

    /// Sees to it that the session listens; ends without an error if nobody wants to hear any more.
    async fn listen(&self, client: &Client, backoff: &mut Backoff) -> Result<(), String> {
        let sql = format!("{} LISTEN \"{}\"", self.connector.setup(), self.channel);
        self.connector.within(client.batch_execute(&sql)).await?;
        *backoff = Backoff::new();
        // Whatever was told while nobody listened is missed.
        self.listeners.tell(&Heard::Gap);
        while !self.listeners.is_empty() {
            sleep(ALIVE).await;
            self.connector.within(client.batch_execute("")).await?;
        }
        Ok(())
    }

    /// Moves the connection's bytes and passes on what is told on it, until it ends. Says why it did.
    async fn hear(&self, mut wire: Wire) -> String {
        loop {
            match poll_fn(|context| wire.poll_message(context)).await {
                Some(Ok(AsyncMessage::Notification(told))) => {
                    match notify::read(told.payload(), &self.teller) {
                        Some(locators) if locators.is_empty() => {}
                        Some(locators) => self.listeners.tell(&Heard::Changed(locators)),
                        None => self.listeners.tell(&Heard::Gap),
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return say(&error),
                None => return "the connection ended".to_owned(),
            }
        }
    }
}
