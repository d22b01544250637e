use std::time::SystemTime;

/// The time of day, which dates in headers and signatures are about.
#[expect(
    clippy::disallowed_methods,
    reason = "a signature and a date in a header are about the clock on the wall"
)]
pub fn now() -> SystemTime {
    SystemTime::now()
}
