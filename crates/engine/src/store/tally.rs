//! How much a store holds.

use taskgate_task::Status;

use super::StoreError;
use super::code::Code;

/// How much there is of an owner, or in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many tasks there are in each status; a status without any may be left out.
    pub by_status: Vec<(Status, u64)>,
    /// How many bytes their arguments, answers, checkpoints and results have, as far as they are still kept.
    pub bytes: u64,
}

impl Tally {
    /// How many have not ended.
    pub fn open(&self) -> u64 {
        self.sum(|status| !status.is_terminal())
    }

    /// How many are kept.
    pub fn stored(&self) -> u64 {
        self.sum(|_| true)
    }

    fn sum(&self, counts: impl Fn(Status) -> bool) -> u64 {
        self.by_status.iter().filter(|(status, _)| counts(*status)).map(|(_, count)| count).sum()
    }

    /// Adds tasks of one status, as a store on disk tells of them.
    pub(super) fn add(&mut self, status: i64, count: i64, bytes: i64) -> Result<(), StoreError> {
        let broken = || StoreError::Failed(format!("the column status of the table task holds {status}"));
        let count = u64::try_from(count).unwrap_or_default();
        self.by_status.push((Status::from_code(status).ok_or_else(broken)?, count));
        self.bytes += u64::try_from(bytes).unwrap_or_default();
        Ok(())
    }
}
