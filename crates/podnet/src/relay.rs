//! Passing bytes between two connections, each direction until its own end.
//!
//! In: two streams; out: bytes carried. One side's end of data is passed on as such, and the other
//! direction goes on (a client may close its half and still read).

use std::io;

use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::TcpStream;

/// Small enough for many idle connections, large enough for a fast one.
const BUFFER: usize = 32 * 1024;

/// Carries bytes both ways until both directions have ended or one failed.
pub async fn carry(mut a: TcpStream, mut b: TcpStream) -> io::Result<(u64, u64)> {
    a.set_nodelay(true)?;
    b.set_nodelay(true)?;
    let carried = copy_bidirectional_with_sizes(&mut a, &mut b, BUFFER, BUFFER).await;
    if carried.is_err() {
        // The peer of a broken connection sees a reset, not an orderly end.
        reset(&a);
        reset(&b);
    }
    carried
}

/// Makes the stream end with a reset when it is dropped.
pub fn reset(stream: &TcpStream) {
    // A stream that is broken already needs no option.
    let _ = stream.set_zero_linger();
}
