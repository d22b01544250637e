//! What is kept of a call, where there is a ledger.

use super::super::call::CallRequest;
use super::super::connect::Inner;
use super::super::error::CallError;
use super::super::handle::Handle;
use super::super::result::CallResult;

/// The place of one call in the ledger. Without a ledger nothing is kept.
#[derive(Debug, Default)]
pub(in super::super) struct Account;

impl Account {
    /// Notes that the call is about to be made. From now on it may have been.
    pub(super) async fn begin(&mut self, inner: &Inner, request: &CallRequest) -> Result<(), CallError> {
        let _ = (inner, request);
        Ok(())
    }

    /// The name under which the call is made.
    pub(super) fn key(&self, request: &CallRequest) -> Option<String> {
        request.idempotency_key.clone()
    }

    /// Notes the task that the call has become.
    pub(super) async fn accepted(&mut self, handle: &Handle) -> Result<(), CallError> {
        let _ = handle;
        Ok(())
    }

    /// The questions that were answered in an earlier life.
    pub(super) async fn answered_before(&self) -> Result<Vec<String>, CallError> {
        Ok(Vec::new())
    }

    /// Notes that the server has got the answer to a question.
    pub(super) async fn answered(&mut self, key: &str) -> Result<(), CallError> {
        let _ = key;
        Ok(())
    }

    /// Notes the end, if it is one.
    pub(super) async fn ended(
        &mut self,
        outcome: Result<CallResult, CallError>,
        handle: Option<&Handle>,
    ) -> Result<CallResult, CallError> {
        let _ = handle;
        outcome
    }
}
