//! The body of a stream's answer: responses one after the other, then how it ended.
//!
//! It is polled when the connection has room, and asks the stream's task for the next response only
//! then.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::mpsc;
use tonic::Status;

use crate::{Frames, Response};

/// What the stream's task hands over. Small: a channel has room for many, used or not.
pub(super) enum Out {
    Push(Box<Response>),
    End(Status),
}

pub(super) struct StreamBody {
    queue: mpsc::Receiver<Out>,
    current: Option<Frames>,
    ended: bool,
}

impl StreamBody {
    pub(super) fn new(queue: mpsc::Receiver<Out>) -> Self {
        Self { queue, current: None, ended: false }
    }

    fn end(&mut self, status: &Status) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.ended = true;
        self.current = None;
        self.queue.close();
        let mut trailers = http::HeaderMap::new();
        let said = status.add_header(&mut trailers);
        Poll::Ready(Some(said.map(|()| Frame::trailers(trailers))))
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            if let Some(frames) = &mut self.current {
                match frames.next_piece() {
                    Ok(Some(piece)) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                    Ok(None) => self.current = None,
                    Err(error) => return self.end(&Status::internal(error.to_string())),
                }
            }
            match self.queue.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Out::Push(response))) => {
                    self.current = Some(Frames::new(*response));
                }
                Poll::Ready(Some(Out::End(status))) => return self.end(&status),
                Poll::Ready(None) => return self.end(&Status::unavailable("the stream has ended")),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}
