//! One direction of a gRPC stream, decoded one message at a time.
//!
//! In: the body of a call or of its answer; out: messages. A subscription to a thousand names is long, the
//! answers that follow are short, and so it is with the first configuration and the changes after it:
//! nothing of a message is kept once it is decoded, and an idle stream holds no buffer.

use std::marker::PhantomData;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body_util::BodyExt;
use tonic::{Code, Status};

/// Flag and length in front of every message.
const HEAD: usize = 5;

/// Messages of a stream.
pub struct Messages<M> {
    body: tonic::body::Body,
    pending: BytesMut,
    limit: usize,
    message: PhantomData<fn() -> M>,
}

impl<M: prost::Message + Default> Messages<M> {
    /// Messages longer than `limit` end the stream.
    pub fn new(body: tonic::body::Body, limit: usize) -> Self {
        Self { body, pending: BytesMut::new(), limit, message: PhantomData }
    }

    /// The next message; None at the end. Nothing is lost if this is dropped before it is done.
    pub async fn message(&mut self) -> Result<Option<M>, Status> {
        loop {
            if let Some(message) = self.decode()? {
                return Ok(Some(message));
            }
            match self.body.frame().await.transpose()? {
                Some(frame) => match frame.into_data() {
                    Ok(data) => self.pending.extend_from_slice(&data),
                    Err(frame) => ended(frame.into_trailers().ok().as_ref())?,
                },
                None if self.pending.is_empty() => return Ok(None),
                None => return Err(Status::invalid_argument("the last message is cut off")),
            }
        }
    }

    fn decode(&mut self) -> Result<Option<M>, Status> {
        let Some(head) = self.pending.first_chunk::<HEAD>() else { return Ok(None) };
        let [flag, length @ ..] = *head;
        if flag != 0 {
            return Err(Status::unimplemented("compressed messages are not supported"));
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > self.limit {
            let limit = self.limit;
            return Err(Status::out_of_range(format!(
                "a message of {length} bytes; {limit} is the most"
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

/// How an answer ended, if these headers say so; a call has none that do.
pub(crate) fn ended(headers: Option<&http::HeaderMap>) -> Result<(), Status> {
    match headers.and_then(Status::from_header_map) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => Ok(()),
    }
}

/// A message as it goes into a body.
pub(crate) fn framed(message: &impl prost::Message) -> Bytes {
    let length = message.encoded_len();
    let mut out = BytesMut::with_capacity(HEAD + length);
    out.put_u8(0);
    // What is longer than the other side takes is refused there.
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // There is room for it.
    let _ = message.encode(&mut out);
    out.freeze()
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

    fn requests(pieces: Vec<Vec<u8>>) -> Messages<String> {
        let frames = pieces.into_iter().map(|p| Ok::<_, Status>(Frame::data(Bytes::from(p))));
        let body = tonic::body::Body::new(StreamBody::new(futures::stream::iter(frames)));
        Messages::new(body, 1_000)
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
    async fn an_answer_ends_as_its_trailers_say() {
        for (code, wanted) in [("0", None), ("14", Some(Code::Unavailable))] {
            let mut trailers = http::HeaderMap::new();
            trailers.insert("grpc-status", code.parse().unwrap());
            let frames = [Frame::data(framed(&"one".to_owned())), Frame::trailers(trailers)];
            let frames = futures::stream::iter(frames.map(Ok::<_, Status>));
            let body = tonic::body::Body::new(StreamBody::new(frames));
            let mut got = Messages::<String>::new(body, 1_000);
            assert_eq!(got.message().await.unwrap().as_deref(), Some("one"));
            match wanted {
                None => assert_eq!(got.message().await.unwrap(), None),
                Some(code) => assert_eq!(got.message().await.unwrap_err().code(), code),
            }
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
            let mut got: Messages<String> =
                Messages::new(tonic::body::Body::new(Full::from(bytes.to_vec())), 1_000);
            assert!(got.message().await.is_err(), "{bytes:?}");
        }
    }
}
