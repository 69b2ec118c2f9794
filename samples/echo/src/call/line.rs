//! A line of text over TCP or TLS.

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::dial::Dial;
use super::{Args, Outcome};

pub(crate) async fn call(args: &Args, dial: &Dial) -> anyhow::Result<Outcome> {
    let mut stream = BufReader::new(dial.connect().await?);
    stream.write_all(format!("{}\n", args.data).as_bytes()).await.context("sending the line")?;
    stream.flush().await.context("sending the line")?;
    let mut line = Vec::new();
    (&mut stream).take(1 << 20).read_until(b'\n', &mut line).await.context("reading the answer")?;
    if line.is_empty() {
        bail!("closed without an answer");
    }
    Ok(Outcome::with_body(line.trim_ascii_end()))
}
