//! What the numbers of the configuration may be, in one place for the file, the command line and the manual.

use std::time::Duration;

use super::duration::{format_duration, format_size, parse_duration, parse_size};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The shortest time that is worth a timer of its own.
const TICK: Duration = Duration::from_millis(10);

/// `inline_for`. At most an hour, because a caller holds its request open that long.
pub const INLINE_FOR: DurationRange = DurationRange { least: Duration::ZERO, most: HOUR };
/// `run_limit`.
pub const RUN_LIMIT: DurationRange = DurationRange { least: TICK, most: YEAR };
/// `idle_limit`, where it is not off.
pub const IDLE_LIMIT: DurationRange = DurationRange { least: TICK, most: YEAR };
/// `retention` and `max_retention`. At least a second, which is the shortest that is ever granted.
pub const RETENTION: DurationRange = DurationRange { least: SECOND, most: YEAR };
/// `poll_interval`.
pub const POLL_INTERVAL: DurationRange = DurationRange { least: TICK, most: HOUR };
/// `keep_alive`. At most ten minutes, since most proxies cut a silent connection long before.
pub const KEEP_ALIVE: DurationRange =
    DurationRange { least: Duration::from_millis(100), most: Duration::from_secs(600) };
/// `session_idle`.
pub const SESSION_IDLE: DurationRange = DurationRange { least: SECOND, most: YEAR };
/// `owner_session_idle`.
pub const OWNER_SESSION_IDLE: DurationRange = DurationRange { least: SECOND, most: YEAR };
/// `drain_grace`.
pub const DRAIN_GRACE: DurationRange = DurationRange { least: Duration::ZERO, most: HOUR };
/// `replay_for`. At most a day: what must last longer is a task.
pub const REPLAY_FOR: DurationRange = DurationRange { least: SECOND, most: DAY };
/// `stream_close_after`, where it is not off.
pub const STREAM_CLOSE_AFTER: DurationRange = DurationRange { least: Duration::from_millis(100), most: DAY };
/// `stream_retry`. Clients do not hear anything while they wait.
pub const STREAM_RETRY: DurationRange =
    DurationRange { least: Duration::ZERO, most: Duration::from_secs(60) };
/// `timeout` of a job's requests.
pub const JOB_TIMEOUT: DurationRange =
    DurationRange { least: Duration::from_millis(100), most: Duration::from_secs(600) };
/// `poll` and `poll_max` of a job.
pub const JOB_POLL: DurationRange = DurationRange { least: TICK, most: HOUR };
/// `connections.head_timeout`. Not less than a client may think between two requests.
pub const HEAD_TIMEOUT: DurationRange = DurationRange { least: SECOND, most: HOUR };
/// `connections.body_timeout`.
pub const BODY_TIMEOUT: DurationRange = DurationRange { least: SECOND, most: HOUR };
/// `connections.max_head`. At least what the HTTP library reads at once.
pub const MAX_HEAD: SizeRange = SizeRange { least: 8 << 10, most: 256 << 10 };
/// `hosts.budget`, where it is not off. At most an hour, because a caller holds its request open that long.
pub const HOST_BUDGET: DurationRange = DurationRange { least: TICK, most: HOUR };
/// `leeway` of an issuer. At most ten minutes: a token that has ended is good for so much longer.
pub const LEEWAY: DurationRange = DurationRange { least: Duration::ZERO, most: Duration::from_secs(600) };
/// `max_message`.
pub const MAX_MESSAGE: SizeRange = SizeRange { least: 1 << 10, most: 1 << 30 };
/// `max_result`.
pub const MAX_RESULT: SizeRange = SizeRange { least: 1 << 10, most: 1 << 30 };
/// `replay_size` and `session_replay`.
pub const REPLAY_SIZE: SizeRange = SizeRange { least: 1 << 10, most: 1 << 30 };
/// `output_limit`. A result holds up to three times as much.
pub const OUTPUT_LIMIT: SizeRange = SizeRange { least: 1 << 10, most: 64 << 20 };
/// `stop_grace`. At most ten minutes, since a cancelled task's command is waited for that long.
pub const STOP_GRACE: DurationRange = DurationRange { least: Duration::ZERO, most: Duration::from_secs(600) };
/// `lease`. At least a second, or a busy machine would lose its work; at most an hour, or a dead one's would wait too long.
pub const LEASE: DurationRange = DurationRange { least: SECOND, most: HOUR };
/// `heartbeat`.
pub const HEARTBEAT: DurationRange = DurationRange { least: Duration::from_millis(100), most: HOUR };
/// `store_poll`.
pub const STORE_POLL: DurationRange =
    DurationRange { least: Duration::from_millis(100), most: Duration::from_secs(600) };
/// `max_attempts`.
pub const MAX_ATTEMPTS: CountRange = CountRange { least: 1, most: 1000 };
/// `connections.max`.
pub const MAX_CONNECTIONS: CountRange = CountRange { least: 1, most: 1_000_000 };
/// `max_sessions`.
pub const MAX_SESSIONS: CountRange = CountRange { least: 1, most: 1_000_000 };
/// `max_owner_sessions`.
pub const MAX_OWNER_SESSIONS: CountRange = CountRange { least: 1, most: 100_000 };
/// `session_requests`.
pub const SESSION_REQUESTS: CountRange = CountRange { least: 1, most: 100_000 };
/// Most numbers of `[limits]`.
pub const COUNT: CountRange = CountRange { least: 1, most: 100_000_000 };
/// `queue` and `owner_queue`. None at all refuses whatever cannot begin at once.
pub const QUEUE: CountRange = CountRange { least: 0, most: 10_000_000 };
/// `stored_size` and `owner_stored_size`, where they are not off.
pub const STORED_SIZE: SizeRange = SizeRange { least: 1 << 10, most: 1 << 50 };
/// `backlog`.
pub const BACKLOG: SizeRange = SizeRange { least: 1 << 10, most: 1 << 30 };
/// `unknown_ids_delay`.
pub const UNKNOWN_IDS_DELAY: DurationRange =
    DurationRange { least: Duration::ZERO, most: Duration::from_secs(60) };
/// `replay_events`.
pub const REPLAY_EVENTS: CountRange = CountRange { least: 1, most: 100_000 };

/// The durations that a setting may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurationRange {
    /// The shortest.
    pub least: Duration,
    /// The longest.
    pub most: Duration,
}

impl DurationRange {
    /// Reads a duration that lies in the range.
    ///
    /// # Errors
    ///
    /// What is wrong with the text, as the end of a sentence that begins with the text.
    pub fn parse(&self, text: &str) -> Result<Duration, String> {
        let duration = parse_duration(text)?;
        if duration < self.least {
            return Err("is too short".to_owned());
        }
        if duration > self.most {
            return Err("is too long".to_owned());
        }
        Ok(duration)
    }

    /// What [`DurationRange::parse`] accepts.
    pub fn allowed(&self) -> String {
        format!(
            "a duration from {} to {}, written like \"500ms\", \"2s\" or \"1h30m\"",
            format_duration(self.least),
            format_duration(self.most)
        )
    }
}

/// The sizes that a setting may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeRange {
    /// The smallest, in bytes.
    pub least: usize,
    /// The largest, in bytes.
    pub most: usize,
}

impl SizeRange {
    /// Reads a size that lies in the range, in bytes.
    ///
    /// # Errors
    ///
    /// What is wrong with the text, as the end of a sentence that begins with the text.
    pub fn parse(&self, text: &str) -> Result<usize, String> {
        let bytes = parse_size(text)?;
        if bytes < self.least {
            return Err("is too small".to_owned());
        }
        if bytes > self.most {
            return Err("is too large".to_owned());
        }
        Ok(bytes)
    }

    /// What [`SizeRange::parse`] accepts.
    pub fn allowed(&self) -> String {
        format!(
            "a size from {} to {}, written like \"512KiB\" or \"16MiB\"",
            format_size(self.least),
            format_size(self.most)
        )
    }
}

/// The numbers that a setting may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountRange {
    /// The smallest.
    pub least: usize,
    /// The largest.
    pub most: usize,
}

impl CountRange {
    /// The number, if it lies in the range.
    pub fn check(&self, number: i64) -> Option<usize> {
        usize::try_from(number).ok().filter(|number| (self.least..=self.most).contains(number))
    }

    /// What [`CountRange::check`] accepts.
    pub fn allowed(&self) -> String {
        format!("a whole number from {} to {}", self.least, self.most)
    }
}
