//! Requests of one stream, decoded one at a time.
//!
//! In: the body of the call; out: messages. A subscription to a thousand names is long, the answers
//! that follow are short, so nothing of a message is kept once it is decoded: an idle stream holds no
//! buffer.

use std::marker::PhantomData;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use tonic::Status;

/// Flag and length in front of every message.
const HEAD: usize = 5;

pub(super) struct Requests<M> {
    body: tonic::body::Body,
    pending: BytesMut,
    limit: usize,
    message: PhantomData<fn() -> M>,
}

impl<M: prost::Message + Default> Requests<M> {
    pub(super) fn new(body: tonic::body::Body, limit: usize) -> Self {
        Self { body, pending: BytesMut::new(), limit, message: PhantomData }
    }

    /// The next message; None at the end. Nothing is lost if this is dropped before it is done.
    pub(super) async fn message(&mut self) -> Result<Option<M>, Status> {
        loop {
            if let Some(message) = self.decode()? {
                return Ok(Some(message));
            }
            match self.body.frame().await.transpose()? {
                // Frames without data are trailers, of which requests have none that count.
                Some(frame) => self.take(frame.into_data().ok()),
                None if self.pending.is_empty() => return Ok(None),
                None => return Err(Status::invalid_argument("the last request is cut off")),
            }
        }
    }

    fn take(&mut self, data: Option<Bytes>) {
        let Some(data) = data else { return };
        self.pending.extend_from_slice(&data);
    }

    fn decode(&mut self) -> Result<Option<M>, Status> {
        let Some(head) = self.pending.first_chunk::<HEAD>() else { return Ok(None) };
        let [flag, length @ ..] = *head;
        if flag != 0 {
            return Err(Status::unimplemented("compressed requests are not supported"));
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > self.limit {
            let limit = self.limit;
            return Err(Status::out_of_range(format!(
                "a request of {length} bytes; {limit} is the most"
            )));
        }
        if self.pending.len() < HEAD + length {
            return Ok(None);
        }
        self.pending.advance(HEAD);
        let message = M::decode(self.pending.split_to(length).freeze());
        if self.pending.is_empty() {
            self.pending = BytesMut::new();
        }
        let message = message.map_err(|error| Status::invalid_argument(error.to_string()))?;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;
    use prost::Message;

    use super::*;

    fn frame(text: &str) -> Vec<u8> {
        let message = text.to_owned().encode_to_vec();
        let length = u32::try_from(message.len()).unwrap();
        [&[0], &length.to_be_bytes()[..], &message].concat()
    }

    fn requests(pieces: Vec<Vec<u8>>) -> Requests<String> {
        let frames = pieces.into_iter().map(|p| Ok::<_, Status>(Frame::data(Bytes::from(p))));
        let body = tonic::body::Body::new(StreamBody::new(futures::stream::iter(frames)));
        Requests::new(body, 1_000)
    }

    #[tokio::test]
    async fn messages_come_whole_however_they_are_cut() {
        let bytes = [frame("one"), frame(""), frame("three")].concat();
        for size in 1..bytes.len() {
            let mut got = requests(bytes.chunks(size).map(<[u8]>::to_vec).collect());
            for text in ["one", "", "three"] {
                assert_eq!(got.message().await.unwrap().as_deref(), Some(text), "{size}");
            }
            assert_eq!(got.message().await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn nothing_is_held_between_messages() {
        let mut got = requests(vec![frame(&"x".repeat(900))]);
        got.message().await.unwrap();
        assert_eq!(got.pending.capacity(), 0);
    }

    #[tokio::test]
    async fn what_cannot_be_a_request_ends_the_stream() {
        let compressed = [1, 0, 0, 0, 0];
        let too_long = [0, 0, 0, 4, 0];
        let broken = [0, 0, 0, 0, 1, 0xff];
        for bytes in [&compressed[..], &too_long, &broken, &[0, 0]] {
            let mut got: Requests<String> =
                Requests::new(tonic::body::Body::new(Full::from(bytes.to_vec())), 1_000);
            assert!(got.message().await.is_err(), "{bytes:?}");
        }
    }
}
