//! Carries a task's questions to a client of a 2025-11-25 session on the streams of its `tasks/get`, where that is configured.
//!
//! Such a stream ends with the answer, so its end says nothing of the questions on it: they stay out when it has been read
//! to its end. They are due again when it breaks before that, or when nobody has answered for as long as a client may stay
//! away (`replay_for`): what was read off the connection need not have arrived.

use std::sync::Arc;

use taskgate_task::Task;

use super::courier::Asking;
use crate::gateway::Gateway;
use crate::policy::TaskQuestions;
use crate::session::{Outlet, Session};
use crate::to_client::ToClient;

impl Gateway {
    /// Puts what is due of the task's questions on the stream of a `tasks/get`. A client that reads none, and a pipe, whose
    /// one stream is the general one, are left to the courier.
    pub(super) async fn ask_polling(&self, session: &Arc<Session>, task: &Task, out: &Outlet) {
        if self.0.settings.streams.task_questions != TaskQuestions::Get || !out.is_stream() || out.is_closed()
        {
            return;
        }
        let (asked, _) = self.ask_open(session, task, out, ToClient::send_briefly).await;
        for (asking, asked) in asked {
            tokio::spawn(self.clone().await_answer(session.clone(), out.clone(), asking, asked));
        }
    }

    async fn await_answer(self, session: Arc<Session>, out: Outlet, asking: Asking, mut asked: ToClient) {
        tokio::select! {
            biased;
            answer = asked.answer_at_any_time() => return self.answered(&session, &asking, answer).await,
            () = self.closed(&session, &asking) => return asked.take_back(),
            was_read = out.forgotten() => if !was_read {
                // A client that comes back to the stream must not answer what is asked elsewhere.
                return asked.take_back();
            },
        }
        // It is due again. Whoever has this one before them for so long may still answer it, but not for ever: each
        // question would pile up with every client that never does.
        let again = asking.let_go();
        tokio::select! {
            biased;
            answer = asked.answer_at_any_time() => self.answered(&session, &again, answer).await,
            () = self.closed(&session, &again) => asked.take_back(),
            () = tokio::time::sleep(self.0.settings.streams.replay_for) => asked.take_back(),
        }
    }

    /// Resolves when the question is no longer open, whoever answered it or took it back.
    async fn closed(&self, session: &Session, asking: &Asking) {
        let Ok(mut watch) = self.0.engine.watch(session.owner(), asking.id).await else { return };
        while watch.current().inputs.open().any(|open| open.key == asking.key) {
            if watch.changed().await.is_err() {
                return;
            }
        }
    }
}
