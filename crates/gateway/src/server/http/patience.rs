//! Time limits that are looked at, not waited for: a timer for each request would cost more than reading it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// Gives time limits to connections that are polled every now and then anyway, which is [`Patience::look_every`]: nobody wakes them when a
/// limit is over.
#[derive(Debug, Clone, Copy)]
pub struct Patience;

impl Patience {
    /// How often a connection has to look at the time that has such a limit. It is passed by as much at most.
    pub fn look_every(limit: Duration) -> Duration {
        (limit / 6).max(Duration::from_millis(20))
    }
}

impl Timer for Patience {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Until(deadline))
    }
}

struct Until(Instant);

impl Future for Until {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Sleep for Until {}
