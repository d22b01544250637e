//! What several targets take from their bytes.

use arbitrary::Unstructured;
use taskgate_wire::RpcError;

/// The longest message of an error: it must never repeat to its reader whatever was sent.
pub const LONGEST_ERROR: usize = 1000;

/// Pieces of a text as it may arrive over a network.
pub fn chunks<'a>(data: &'a [u8], sizes: &[u8]) -> Vec<&'a [u8]> {
    let (mut rest, mut chunks, mut sizes) = (data, Vec::new(), sizes.iter().cycle());
    while !rest.is_empty() {
        let size = sizes.next().map_or(usize::MAX, |size| 1 + usize::from(*size % 32));
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

/// A few bytes, and whatever is left.
pub fn split(data: &[u8], most: usize) -> (&[u8], &[u8]) {
    let (count, rest) = data.split_first().map_or((0, data), |(count, rest)| (usize::from(*count), rest));
    rest.split_at((count % (most + 1)).min(rest.len()))
}

/// An error is short, whatever it is about, and can be written.
pub fn check_error(error: &RpcError) {
    assert!(error.message.len() <= LONGEST_ERROR, "an error of {} bytes", error.message.len());
    let written: serde_json::Value = serde_json::from_str(error.to_payload().as_str()).unwrap();
    assert_eq!(written["code"], error.code.number());
    assert_eq!(written["message"], error.message);
}

/// A short text of any characters.
pub fn text(input: &mut Unstructured<'_>) -> arbitrary::Result<String> {
    let length = input.int_in_range(0..=24_usize)?;
    (0..length).map(|_| input.arbitrary::<char>()).collect()
}

/// What a store in memory gives at once.
pub fn now_or_never<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("it waits"),
    }
}
