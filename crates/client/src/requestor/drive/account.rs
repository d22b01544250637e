//! What is kept of a call, where there is a ledger.

use super::super::call::CallRequest;
use super::super::connect::Inner;
use super::super::error::CallError;
use super::super::handle::Handle;
use super::super::result::CallResult;

#[cfg(feature = "ledger")]
use crate::ledger::{CallId, Ledger, LedgerError, New};

/// The place of one call in the ledger. Without a ledger nothing is kept.
#[derive(Debug, Default)]
pub(in super::super) struct Account {
    #[cfg(feature = "ledger")]
    place: Option<Place>,
}

#[cfg(feature = "ledger")]
#[derive(Debug)]
struct Place {
    ledger: Ledger,
    /// Once it is written.
    id: Option<CallId>,
    /// Whether the call was sent and nobody knows what has become of it.
    is_lost: bool,
}

impl Account {
    /// For a call of this client that is new to the ledger.
    pub(in super::super) fn of(inner: &Inner) -> Account {
        #[cfg(feature = "ledger")]
        {
            let place = inner.ledger.clone().map(|ledger| Place { ledger, id: None, is_lost: false });
            Account { place }
        }
        #[cfg(not(feature = "ledger"))]
        {
            let _ = inner;
            Account {}
        }
    }

    /// For a call of another life.
    #[cfg(feature = "ledger")]
    pub(in super::super) fn found(ledger: Ledger, id: CallId, is_lost: bool) -> Account {
        Account { place: Some(Place { ledger, id: Some(id), is_lost }) }
    }

    /// Whether there is a ledger, so that a call should have a name.
    pub(in super::super) fn is_kept(&self) -> bool {
        #[cfg(feature = "ledger")]
        return self.place.is_some();
        #[cfg(not(feature = "ledger"))]
        false
    }

    /// Notes that the call is about to be sent, with its key or without. From now on it may have been.
    pub(super) async fn sending(
        &mut self,
        inner: &Inner,
        request: &CallRequest,
        keyed: bool,
    ) -> Result<(), CallError> {
        #[cfg(feature = "ledger")]
        if let Some(Place { ledger, id, .. }) = &mut self.place {
            let call = New {
                endpoint: inner.identity.clone(),
                tool: request.tool.clone(),
                digest: digest(&request.arguments),
                key: request.idempotency_key.clone(),
                keyed,
                created: super::super::now(),
            };
            *id = Some(ledger.sending(*id, call).await.map_err(unusable)?);
        }
        let _ = (inner, request, keyed);
        Ok(())
    }

    /// Nobody knows what has become of the call.
    pub(super) fn lost(&mut self) {
        #[cfg(feature = "ledger")]
        if let Some(place) = &mut self.place {
            place.is_lost = true;
        }
    }

    /// Notes the task that the call has become.
    pub(super) async fn accepted(&mut self, handle: &Handle) -> Result<(), CallError> {
        #[cfg(feature = "ledger")]
        if let Some(Place { ledger, id: Some(id), .. }) = &self.place {
            ledger.accepted(*id, handle.clone()).await.map_err(unusable)?;
        }
        let _ = handle;
        Ok(())
    }

    /// Finds the place of a task that is resumed, and the questions that were answered in an earlier life.
    pub(super) async fn resumed(&mut self, handle: &Handle) -> Result<Vec<String>, CallError> {
        #[cfg(feature = "ledger")]
        if let Some(Place { ledger, id, .. }) = &mut self.place {
            let found = match *id {
                Some(id) => id,
                None => ledger.resumed(handle.clone()).await.map_err(unusable)?,
            };
            *id = Some(found);
            return ledger.answers(found).await.map_err(unusable);
        }
        let _ = handle;
        Ok(Vec::new())
    }

    /// Notes that the server has got the answer to a question.
    pub(super) async fn answered(&mut self, key: &str) -> Result<(), CallError> {
        #[cfg(feature = "ledger")]
        if let Some(Place { ledger, id: Some(id), .. }) = &self.place {
            ledger.answered(*id, key.to_owned()).await.map_err(unusable)?;
        }
        let _ = key;
        Ok(())
    }

    /// The end that is to be noted, if it is one: a task that is only not followed any more goes on.
    pub(super) fn end(
        &self,
        outcome: &Result<CallResult, CallError>,
        handle: Option<&Handle>,
    ) -> Option<End> {
        #[cfg(feature = "ledger")]
        if let Some(Place { ledger, id: Some(id), is_lost }) = &self.place {
            let word = word(outcome, handle.is_some() || *is_lost)?;
            return Some(End { ledger: ledger.clone(), id: *id, word });
        }
        let _ = (outcome, handle);
        None
    }
}

/// The end of a call, which is not noted yet.
pub(super) struct End {
    #[cfg(feature = "ledger")]
    ledger: Ledger,
    #[cfg(feature = "ledger")]
    id: CallId,
    #[cfg(feature = "ledger")]
    word: &'static str,
}

impl End {
    /// Notes it.
    pub(super) async fn note(self) {
        #[cfg(feature = "ledger")]
        if let Err(error) = self.ledger.ended(self.id, self.word).await {
            // It is looked at again in the next life, then.
            tracing::warn!(%error, "the end of a call was not noted");
        }
    }
}

/// How a call ended, in one word; `None` if it has not. `is_open` says whether something of it may still go on.
#[cfg(feature = "ledger")]
fn word(outcome: &Result<CallResult, CallError>, is_open: bool) -> Option<&'static str> {
    Some(match outcome {
        Ok(result) if result.is_error => "tool_error",
        Ok(_) => "completed",
        Err(
            CallError::Deadline { .. }
            | CallError::Unreachable { .. }
            | CallError::Detached
            | CallError::Ledger(_)
            | CallError::Refused(_)
            | CallError::WrongEndpoint { .. },
        ) if is_open => return None,
        Err(CallError::Cancelled { .. } | CallError::Detached | CallError::Deadline { .. }) => "cancelled",
        Err(CallError::Failed { .. }) => "failed",
        Err(CallError::Expired { .. }) => "expired",
        Err(CallError::Uncertain { .. }) => "uncertain",
        Err(_) => "refused",
    })
}

#[cfg(feature = "ledger")]
fn unusable(error: LedgerError) -> CallError {
    CallError::Ledger(error.to_string())
}

/// What is the same of the same arguments, however their members are ordered.
#[cfg(feature = "ledger")]
pub(in super::super) fn digest(arguments: &serde_json::Value) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    let mut arguments = arguments.clone();
    arguments.sort_all_objects();
    Sha256::digest(arguments.to_string().as_bytes()).into()
}
