//! Going on with the calls of an earlier life.

use serde_json::Value;

use super::call::{CallRequest, PendingCall};
use super::client::Client;
use super::drive::{self, Account, Job, digest};
use super::endpoint::hex;
use super::error::CallError;
use crate::ledger::{Open, Stage};

/// A call that was sent in an earlier life, and whose answer was never seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unseen {
    /// The tool.
    pub tool: String,
    /// SHA-256 of its arguments in hexadecimal, with the members of objects in alphabetical order.
    pub digest: String,
    /// The name under which it was sent, if its server said that it honours such names.
    pub idempotency_key: Option<String>,
    /// When it was made, in milliseconds since 1970.
    pub created: u64,
}

impl Client {
    /// Goes on with every call to this server that an earlier life of the program has left unfinished.
    ///
    /// Tasks are followed to their end. A call that was sent and whose answer was never seen is looked for by its key; if its
    /// server honours none or knows no such call, it ends as [`CallError::Uncertain`], and the tool is not called again.
    ///
    /// # Errors
    ///
    /// Why the ledger cannot be read, or that there is none.
    pub async fn resume_all(&self) -> Result<Vec<PendingCall>, CallError> {
        self.resume_all_with(|_| None).await
    }

    /// The same, where the program still knows the arguments of its calls: one that its server says it has never seen is then
    /// made, under the same key. Arguments are not kept in the ledger.
    ///
    /// # Errors
    ///
    /// Why the ledger cannot be read, that there is none, or that these are not the arguments of that call.
    pub async fn resume_all_with(
        &self,
        arguments: impl Fn(&Unseen) -> Option<Value>,
    ) -> Result<Vec<PendingCall>, CallError> {
        let inner = self.inner();
        let ledger = inner.ledger.clone().ok_or_else(|| CallError::Ledger("there is none".to_owned()))?;
        let open = ledger.take_over(inner.identity.clone()).await;
        let open = open.map_err(|error| CallError::Ledger(error.to_string()))?;
        let mut calls = Vec::new();
        for Open { id, tool, digest: known, created, stage } in open {
            let account = |is_lost| Account::found(ledger.clone(), id, is_lost);
            calls.push(match stage {
                Stage::Accepted(handle) => drive::start(inner.clone(), Job::Resume(handle), account(false)),
                Stage::Sent(key) => {
                    let digest_known = hex(&known);
                    let unseen = Unseen {
                        tool: tool.clone(),
                        digest: digest_known,
                        idempotency_key: key.clone(),
                        created,
                    };
                    let arguments = arguments(&unseen);
                    if arguments.as_ref().is_some_and(|arguments| digest(arguments)[..] != known[..]) {
                        let why =
                            format!("these are not the arguments of the call of {tool:?} that was sent");
                        return Err(CallError::Params(why));
                    }
                    let may_send = arguments.is_some();
                    let request = CallRequest {
                        idempotency_key: key,
                        ..CallRequest::new(tool, arguments.unwrap_or_default())
                    };
                    drive::start(inner.clone(), Job::Find { request, may_send }, account(true))
                }
            });
        }
        Ok(calls)
    }
}
