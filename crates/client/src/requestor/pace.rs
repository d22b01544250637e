use std::time::Duration;

/// How often a task is asked about: as often as its server says, within these bounds from the first time on. What a server
/// tells by itself is looked at sooner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Never more often, whatever the server says.
    pub floor: Duration,
    /// Never more rarely.
    pub cap: Duration,
    /// By which part an interval may be longer or shorter at random, so that many clients do not ask at the same time.
    pub jitter: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { floor: Duration::from_millis(250), cap: Duration::from_secs(60), jitter: 0.1 }
    }
}
