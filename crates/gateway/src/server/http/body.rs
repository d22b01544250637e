//! A message's body.

use std::future::poll_fn;
use std::pin::Pin;

use axum::body::{Body, Bytes};
use bytes::BytesMut;
use http_body::Body as _;

/// Why a body could not be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is longer than the limit.
    TooLong,
    /// It broke off, or its framing makes no sense.
    Broken,
}

/// All of it, up to `limit` bytes. One that came in a single piece, as most do, is not copied.
pub async fn read(mut body: Body, limit: usize) -> Result<Bytes, Unread> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() else { continue };
        if first.len().max(all.len()) + data.len() > limit {
            return Err(Unread::TooLong);
        }
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            all.extend_from_slice(&data);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    async fn read_pieces(pieces: &[&'static str], limit: usize) -> Result<Bytes, Unread> {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok::<_, std::io::Error>(*piece)).collect();
        read(Body::from_stream(stream::iter(pieces)), limit).await
    }

    #[tokio::test]
    async fn pieces_are_joined_up_to_the_limit() {
        assert_eq!(read(Body::empty(), 0).await, Ok(Bytes::new()));
        assert_eq!(read_pieces(&["abc"], 3).await, Ok("abc".into()));
        assert_eq!(read_pieces(&["", "a", "", "bc", "d"], 4).await, Ok("abcd".into()));
        assert_eq!(read_pieces(&["abcd"], 3).await, Err(Unread::TooLong));
        assert_eq!(read_pieces(&["ab", "cd"], 3).await, Err(Unread::TooLong));
        assert_eq!(read_pieces(&["a", "b", "cd"], 3).await, Err(Unread::TooLong));
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_broken() {
        let pieces = [Ok("abc"), Err(std::io::Error::other("gone"))];
        assert_eq!(read(Body::from_stream(stream::iter(pieces)), 10).await, Err(Unread::Broken));
    }
}
