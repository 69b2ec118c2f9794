//! Plain TCP: a line in, a report out, as long as the client keeps sending lines.

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

use crate::report::{Connection, Report};

/// Longer lines are reported in parts.
const LONGEST: u64 = 64 << 10;

/// With `greet` the server speaks first, which is what protocol detection has to survive.
pub(crate) async fn serve<S>(stream: S, seen: Connection, greet: bool) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut stream = BufReader::new(stream);
    if greet {
        stream.write_all(format!("hello from {}\n", seen.who.hostname).as_bytes()).await?;
        stream.flush().await?;
    }
    loop {
        let mut line = Vec::new();
        (&mut stream).take(LONGEST).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return stream.shutdown().await;
        }
        while line.last().is_some_and(|b| matches!(b, b'\n' | b'\r')) {
            line.pop();
        }
        let report = Report::new(seen.clone(), "TCP", &line).json();
        stream.write_all(report.as_bytes()).await?;
        stream.write_all(b"\n").await?;
        stream.flush().await?;
    }
}
