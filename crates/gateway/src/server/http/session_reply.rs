//! The answer to a request of a session: JSON where that is enough, else a stream that the client can come back to.

use std::sync::Arc;

use axum::response::Response;
use futures_util::future::BoxFuture;
use taskgate_wire::Id;

use super::{connection, reply};
use crate::policy::Settings;
use crate::route::Answer;
use crate::server::message;
use crate::session::Session;
use crate::stream::Reader;

/// A request being answered.
pub struct SessionReply {
    /// Whose request it is.
    pub session: Arc<Session>,
    /// Its id.
    pub id: Id,
    /// What becomes the answer; `None` if the request was cancelled and gets none.
    pub run: BoxFuture<'static, Option<Answer>>,
    /// Reads what comes before the answer; `None` for a caller that reads no streams.
    pub reader: Option<Reader>,
}

impl SessionReply {
    /// Waits for what comes first and answers in the fitting way.
    pub async fn respond(mut self, settings: &Settings) -> Response {
        let Some(mut reader) = self.reader else {
            return reply::answered(self.id, self.run.await, false);
        };
        let answered = tokio::select! {
            biased;
            () = reader.filled() => None,
            answer = &mut self.run => {
                if reader.is_empty() {
                    return reply::answered(self.id, answer, false);
                }
                Some(answer)
            }
            () = tokio::time::sleep(reply::QUIET) => None,
        };
        let (stream, id, run) = (reader.stream().clone(), self.id, self.run);
        self.session.streams().keep(&stream);
        let finish = move |answer: Option<Answer>| {
            stream.finish(answer.map(|answer| message(id, answer)).as_ref());
        };
        match answered {
            Some(answer) => finish(answer),
            // The answer goes on the stream whether somebody reads it or not.
            None => drop(tokio::spawn(async move { finish(run.await) })),
        }
        connection::respond(self.session, reader, settings, None)
    }
}
