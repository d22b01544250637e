use std::fmt;

/// The id of an event: it names the session, the stream and the place in it.
///
/// A place is the number of an event, followed in a priming event, which has no number of its own, by how many of them
/// the stream has had, so that no id is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// Random for each session, so that an id of another session is never taken for one of this.
    pub tag: u32,
    /// The stream's number in the session.
    pub stream: u64,
    /// The event's number in the stream.
    pub event: u64,
    /// Which priming event it is.
    pub priming: Option<u64>,
}

impl EventId {
    /// Reads what a client sent as `Last-Event-ID`.
    pub fn parse(text: &str) -> Option<EventId> {
        let mut parts = text.trim_matches([' ', '\t']).split('-');
        let (tag, stream, place) = (parts.next()?, parts.next()?, parts.next()?);
        let (event, priming) = match place.split_once('.') {
            Some((event, priming)) => (event, Some(priming.parse().ok()?)),
            None => (place, None),
        };
        let tag = u32::from_str_radix(tag, 16).ok()?;
        let id = EventId { tag, stream: stream.parse().ok()?, event: event.parse().ok()?, priming };
        parts.next().is_none().then_some(id)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{}-{}", self.tag, self.stream, self.event)?;
        self.priming.map_or(Ok(()), |priming| write!(f, ".{priming}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for priming in [None, Some(0), Some(7)] {
            let id = EventId { tag: 0x2a, stream: 3, event: u64::MAX, priming };
            assert_eq!(EventId::parse(&id.to_string()), Some(id));
        }
        assert_eq!(EventId::parse(" 0000002a-0-1\t").map(|id| id.event), Some(1));
    }

    #[test]
    fn anything_else_is_no_id() {
        let texts = [
            "",
            "1",
            "a-1",
            "a-1-",
            "a-1-1-1",
            "a-1-1.",
            "a-1-1.x",
            "g-1-1",
            "a--1",
            "a-1-99999999999999999999",
        ];
        for text in texts {
            assert_eq!(EventId::parse(text), None, "{text}");
        }
    }
}
