//! A message's body.

use std::future::poll_fn;
use std::pin::Pin;

use axum::body::{Body, Bytes};
use bytes::BytesMut;
use http_body::Body as _;

/// All of it; `None` if it is longer than `limit` bytes or breaks off. One that came in a single piece, as most do, is
/// not copied.
pub async fn read(mut body: Body, limit: usize) -> Option<Bytes> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        if first.len().max(all.len()) + data.len() > limit {
            return None;
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
    Some(if all.is_empty() { first } else { all.freeze() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    async fn read_pieces(pieces: &[&'static str], limit: usize) -> Option<Bytes> {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok::<_, std::io::Error>(*piece)).collect();
        read(Body::from_stream(stream::iter(pieces)), limit).await
    }

    #[tokio::test]
    async fn pieces_are_joined_up_to_the_limit() {
        assert_eq!(read(Body::empty(), 0).await, Some(Bytes::new()));
        assert_eq!(read_pieces(&["abc"], 3).await, Some("abc".into()));
        assert_eq!(read_pieces(&["", "a", "", "bc", "d"], 4).await, Some("abcd".into()));
        assert_eq!(read_pieces(&["abcd"], 3).await, None);
        assert_eq!(read_pieces(&["ab", "cd"], 3).await, None);
        assert_eq!(read_pieces(&["a", "b", "cd"], 3).await, None);
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_none() {
        let pieces = [Ok("abc"), Err(std::io::Error::other("gone"))];
        assert_eq!(read(Body::from_stream(stream::iter(pieces)), 10).await, None);
    }
}
