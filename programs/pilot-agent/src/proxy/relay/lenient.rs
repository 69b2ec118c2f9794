//! Connections of gRPC clients whose `:authority` our HTTP/2 library would refuse.
//!
//! In: bytes as clients send them; out: the same, but for one thing. gRPC's C library, and with it Python's
//! and others, names as authority the socket's path with its slashes as `%2F`, which no host may have, and
//! nobody here looks at it. Each `%` of it becomes a `-`: as long as before, so that nothing else of the
//! frame, nor of what both ends remember of headers, has to change. Frames that cannot be read go on as
//! they are.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use futures::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::{Connected, UdsConnectInfo};

/// What every connection begins with.
const PREFACE: usize = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
/// Length, type, flags and stream in front of every frame.
const HEAD: usize = 9;
const HEADERS: u8 = 1;
/// The longest frame that a server takes unless it says otherwise.
const LONGEST: usize = 16 * 1024;
/// Literals whose name is the first of HTTP/2's own table, `:authority`: kept, not kept, never kept.
const NAMED: [u8; 3] = [0x41, 0x01, 0x11];
const NAME: &[u8] = b":authority";

/// The connections of a listener.
pub(super) fn incoming(
    listener: UnixListener,
) -> impl Stream<Item = std::io::Result<Lenient>> + Send {
    UnixListenerStream::new(listener).map(|io| io.map(Lenient::new))
}

/// A connection that is read frame by frame.
pub(super) struct Lenient<IO = UnixStream> {
    io: IO,
    /// Come, and not looked at.
    raw: BytesMut,
    /// Looked at, and not handed on.
    ready: BytesMut,
    /// What is left of a part that goes on as it is.
    passing: usize,
}

impl<IO> Lenient<IO> {
    fn new(io: IO) -> Self {
        Self { io, raw: BytesMut::new(), ready: BytesMut::new(), passing: PREFACE }
    }

    /// Looks at what has come as far as it is complete.
    fn look(&mut self) {
        loop {
            if self.passing > 0 {
                let part = self.raw.split_to(self.passing.min(self.raw.len()));
                self.passing -= part.len();
                self.ready.unsplit(part);
                if self.passing > 0 {
                    return;
                }
            }
            let Some([a, b, c, kind, ..]) = self.raw.first_chunk::<HEAD>().copied() else { return };
            let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX);
            let whole = HEAD.saturating_add(length);
            if kind == HEADERS && length <= LONGEST {
                if self.raw.len() < whole {
                    return;
                }
                mend(&mut self.raw[HEAD..whole]);
            }
            self.passing = whole;
        }
    }
}

/// Makes an authority in a block of headers one that a host may have.
fn mend(block: &mut [u8]) {
    let mut at = 0;
    while at < block.len() {
        let value = match &block[at..] {
            rest if rest.starts_with(NAME) => at + NAME.len(),
            [first, ..] if NAMED.contains(first) => at + 1,
            _ => {
                at += 1;
                continue;
            }
        };
        at += 1;
        // One byte of length; a packed value has its first bit set.
        let Some(length) = block.get(value).map(|length| usize::from(*length)) else { return };
        let Some(text) = block.get_mut(value + 1..value + 1 + length) else { continue };
        if length < 127 && text.iter().all(|b| b.is_ascii_alphanumeric() || b"%-._~".contains(b)) {
            text.iter_mut().filter(|b| **b == b'%').for_each(|b| *b = b'-');
        }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Lenient<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        if out.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            if !this.ready.is_empty() {
                let count = this.ready.len().min(out.remaining());
                out.put_slice(&this.ready[..count]);
                this.ready.advance(count);
                if this.ready.is_empty() {
                    this.ready = BytesMut::new();
                }
                return Poll::Ready(Ok(()));
            }
            let before = out.filled().len();
            std::task::ready!(Pin::new(&mut this.io).poll_read(cx, out))?;
            let came = &out.filled()[before..];
            if came.is_empty() {
                // The end, perhaps in the middle of a frame.
                this.ready = std::mem::take(&mut this.raw);
                if this.ready.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            this.raw.extend_from_slice(came);
            out.set_filled(before);
            this.look();
            if this.raw.is_empty() {
                this.raw = BytesMut::new();
            }
        }
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Lenient<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl Connected for Lenient {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> UdsConnectInfo {
        self.io.connect_info()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt;

    use super::*;

    const START: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, 4, 0, 0, 0, 1], payload].concat()
    }

    fn literal(name: &[u8], value: &str) -> Vec<u8> {
        let length = u8::try_from(value.len()).unwrap();
        [name, &[length], value.as_bytes(), b"\x83\x86"].concat()
    }

    /// What comes out when the bytes come in pieces of that size.
    async fn read(bytes: &[u8], size: usize) -> Vec<u8> {
        let (mut give, take) = tokio::io::duplex(size);
        let bytes = bytes.to_vec();
        tokio::spawn(async move {
            tokio::io::AsyncWriteExt::write_all(&mut give, &bytes).await.unwrap();
        });
        let mut got = Vec::new();
        Lenient::new(take).read_to_end(&mut got).await.unwrap();
        got
    }

    #[tokio::test]
    async fn a_path_as_authority_becomes_one_that_a_host_may_have() {
        let spelled = b"\x40\x0a:authority".as_slice();
        for name in [spelled, b"\x41", b"\x01", b"\x11"] {
            let with = |authority| {
                let headers = [b"\x40\x05:path\x04/a/b".as_slice(), &literal(name, authority)];
                let data = frame(0, &literal(b"\x41", "x%2Fy"));
                [START, &frame(4, b""), &frame(HEADERS, &headers.concat()), &data].concat()
            };
            for size in [1, 2, 7, 4096] {
                let got = read(&with("etc%2Fistio%2Fproxy%2FXDS"), size).await;
                assert_eq!(got, with("etc-2Fistio-2Fproxy-2FXDS"), "{size}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_cut_off_or_too_long_goes_on_as_it_is() {
        let long = frame(HEADERS, &literal(b"\x41", "a%2Fb").repeat(4_000));
        let cut = &frame(HEADERS, &literal(b"\x41", "a%2Fb"))[..12];
        for rest in [&long[..], cut, b"", b"\0"] {
            let bytes = [START, rest].concat();
            assert_eq!(read(&bytes, 1000).await, bytes);
        }
        assert_eq!(read(b"GET / HTTP/1.1\r\n", 5).await, b"GET / HTTP/1.1\r\n");
    }

    proptest! {
        #[test]
        fn nothing_else_changes_and_nothing_is_lost(bytes in proptest::collection::vec(any::<u8>(), 0..400), size in 1..50usize) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let got = runtime.block_on(read(&bytes, size));
            prop_assert_eq!(got.len(), bytes.len());
            let same = |(a, b): (&u8, &u8)| a == b || (*a == b'-' && *b == b'%');
            prop_assert!(got.iter().zip(&bytes).all(same));
        }
    }
}
