//! The small numbers that stand for words in SQLite and Postgres. They are part of the layouts: never renumber them.

use serde::{Deserialize, Serialize};
use taskgate_task::{Failure, Outcome, Payload, Status, Who, WorkClass};

/// Something a store on disk knows by a number.
pub(super) trait Code: Sized + Copy + 'static {
    const ALL: &'static [Self];

    fn code(self) -> i64;

    fn from_code(code: i64) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.code() == code)
    }
}

impl Code for Status {
    const ALL: &'static [Self] = &Status::ALL;

    fn code(self) -> i64 {
        match self {
            Status::Working => 1,
            Status::InputRequired => 2,
            Status::Completed => 3,
            Status::Failed => 4,
            Status::Cancelled => 5,
        }
    }
}

impl Code for WorkClass {
    const ALL: &'static [Self] = &WorkClass::ALL;

    fn code(self) -> i64 {
        match self {
            WorkClass::Live => 1,
            WorkClass::Repeatable => 2,
            WorkClass::Resumable => 3,
            WorkClass::External => 4,
        }
    }
}

impl Code for Failure {
    const ALL: &'static [Self] =
        &[Failure::RunLimit, Failure::IdleLimit, Failure::Interrupted, Failure::NoRunner];

    fn code(self) -> i64 {
        match self {
            Failure::RunLimit => 1,
            Failure::IdleLimit => 2,
            Failure::Interrupted => 3,
            Failure::NoRunner => 4,
        }
    }
}

impl Code for Who {
    const ALL: &'static [Self] = &[Who::Requestor, Who::Runner, Who::Receiver];

    fn code(self) -> i64 {
        match self {
            Who::Requestor => 1,
            Who::Runner => 2,
            Who::Receiver => 3,
        }
    }
}

/// Whether a query selected the outcomes' bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bodies {
    Read,
    /// They stand as `null` in the records.
    Spared,
}

/// Which kind of [`Outcome`] a row holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutcomeKind {
    Result,
    #[serde(rename = "result_is_error")]
    ErrorResult,
    Error,
}

impl OutcomeKind {
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Result { is_error: false, .. } => OutcomeKind::Result,
            Outcome::Result { is_error: true, .. } => OutcomeKind::ErrorResult,
            Outcome::Error { .. } => OutcomeKind::Error,
        }
    }

    /// An outcome of this kind. `None` if it must have a summary and has none.
    pub(super) fn outcome(self, body: Payload, summary: Option<String>) -> Option<Outcome> {
        Some(match self {
            OutcomeKind::Result => Outcome::Result { body, is_error: false, summary },
            OutcomeKind::ErrorResult => Outcome::Result { body, is_error: true, summary },
            OutcomeKind::Error => Outcome::Error { body, summary: summary? },
        })
    }
}

impl Code for OutcomeKind {
    const ALL: &'static [Self] = &[OutcomeKind::Result, OutcomeKind::ErrorResult, OutcomeKind::Error];

    fn code(self) -> i64 {
        match self {
            OutcomeKind::Result => 1,
            OutcomeKind::ErrorResult => 2,
            OutcomeKind::Error => 3,
        }
    }
}
