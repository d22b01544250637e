use std::collections::VecDeque;

use taskgate_wire::Message;

/// What an event costs besides its text, roughly. Without it many short events would seem to cost nothing.
const OVERHEAD: usize = 64;

/// The messages of one stream: those still to be sent, and those a client may want again.
#[derive(Debug, Default)]
pub struct Buffer {
    events: VecDeque<Event>,
    /// The number of the newest event there ever was; the first is 1.
    last: u64,
    /// The number of the newest event that was handed to a connection.
    sent: u64,
    bytes: usize,
}

/// A message under its number.
#[derive(Debug)]
pub struct Event {
    /// The number; later events have larger ones.
    pub number: u64,
    /// The message.
    pub text: String,
    /// Whether somebody waits for it: requests and answers are not given up before they were sent.
    is_awaited: bool,
}

impl Event {
    fn size(&self) -> usize {
        self.text.len() + OVERHEAD
    }
}

/// How much a buffer may hold.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Events, as long as there are some that were sent already.
    pub events: usize,
    /// Bytes, likewise.
    pub bytes: usize,
    /// Events, if they must go unsent.
    pub unsent_events: usize,
    /// Bytes, likewise.
    pub unsent_bytes: usize,
}

impl Buffer {
    /// Adds a message, and returns what it costs.
    pub fn push(&mut self, message: &Message) -> usize {
        self.last += 1;
        let is_awaited = !matches!(message, Message::Notification { .. });
        let event = Event { number: self.last, text: message.to_text(), is_awaited };
        let size = event.size();
        self.bytes += size;
        self.events.push_back(event);
        size
    }

    /// The number of the newest event.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The number of the newest event that was sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// How many bytes it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The events after this number, as far as they are still there.
    pub fn after(&self, number: u64) -> impl Iterator<Item = &Event> {
        let first = self.events.partition_point(|event| event.number <= number);
        self.events.range(first..)
    }

    /// Everything has been handed to a connection.
    pub fn all_sent(&mut self) {
        self.sent = self.last;
    }

    /// Gives up what is too much: first what was sent, the oldest first, but never the newest event of all, which may be
    /// an answer that has not arrived; then notifications that were not.
    pub fn fit(&mut self, room: Room) {
        while self.events.len() > 1
            && (self.events.len() > room.events || self.bytes > room.bytes)
            && self.events.front().is_some_and(|event| event.number <= self.sent)
        {
            self.remove(0);
        }
        while self.events.len() > room.unsent_events || self.bytes > room.unsent_bytes {
            let oldest = self.events.iter().position(|event| event.number > self.sent && !event.is_awaited);
            let Some(oldest) = oldest else { break };
            self.remove(oldest);
        }
    }

    fn remove(&mut self, index: usize) {
        self.bytes -= self.events.remove(index).map_or(0, |event| event.size());
    }
}

#[cfg(test)]
mod tests {
    use taskgate_task::Payload;
    use taskgate_wire::Id;

    use super::*;

    fn notification() -> Message {
        Message::Notification { method: "m".to_owned(), params: None }
    }

    fn holding(count: usize) -> Buffer {
        let mut buffer = Buffer::default();
        for _ in 0..count {
            buffer.push(&notification());
        }
        buffer
    }

    fn answer() -> Message {
        Message::Response { id: Id::number(1), result: Payload::null() }
    }

    fn room(events: usize, bytes: usize) -> Room {
        Room { events, bytes, unsent_events: events, unsent_bytes: bytes }
    }

    fn numbers(buffer: &Buffer, after: u64) -> Vec<u64> {
        buffer.after(after).map(|event| event.number).collect()
    }

    #[test]
    fn the_oldest_go_first_and_the_newest_stays() {
        let mut buffer = holding(5);
        buffer.all_sent();
        buffer.fit(room(3, usize::MAX));
        assert_eq!(numbers(&buffer, 0), [3, 4, 5]);
        assert_eq!(numbers(&buffer, 4), [5]);
        buffer.fit(room(0, 0));
        assert_eq!(numbers(&buffer, 0), [5]);
        assert_eq!((buffer.last(), buffer.sent()), (5, 5));
    }

    #[test]
    fn what_somebody_waits_for_is_not_given_up_unsent() {
        let mut buffer = Buffer::default();
        buffer.push(&notification());
        buffer.push(&answer());
        buffer.push(&notification());
        buffer.fit(room(0, 0));
        assert_eq!(numbers(&buffer, 0), [2]);
        buffer.push(&notification());
        assert_eq!(numbers(&buffer, 0), [2, 4]);
    }

    #[test]
    fn a_connected_client_loses_nothing_that_is_on_its_way() {
        let mut buffer = holding(9);
        let connected = Room { events: 3, bytes: 0, unsent_events: usize::MAX, unsent_bytes: usize::MAX };
        buffer.fit(connected);
        assert_eq!(numbers(&buffer, 0).len(), 9);
        buffer.all_sent();
        buffer.fit(connected);
        assert_eq!(numbers(&buffer, 0), [9]);
    }

    #[test]
    fn bytes_are_counted() {
        let mut buffer = holding(4);
        let size = notification().to_text().len() + OVERHEAD;
        assert_eq!(buffer.bytes(), 4 * size);
        buffer.fit(room(usize::MAX, 2 * size + 1));
        assert_eq!((numbers(&buffer, 0), buffer.bytes()), (vec![3, 4], 2 * size));
    }
}
