//! A proxy for tunnels: `CONNECT host:port` in, and then whatever both sides say.

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request head that is longer is nobody's.
const LONGEST: usize = 8 << 10;

pub(crate) async fn serve(mut near: TcpStream) -> anyhow::Result<()> {
    let head = head(&mut near).await?;
    let mut words = head.split(' ');
    let (Some("CONNECT"), Some(target)) = (words.next(), words.next()) else {
        near.write_all(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n").await?;
        bail!("not CONNECT: {head:?}");
    };
    let Ok(mut far) = TcpStream::connect(target).await else {
        near.write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n").await?;
        bail!("nobody at {target}");
    };
    near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.context("answering")?;
    tokio::io::copy_bidirectional(&mut near, &mut far).await.context("tunnel")?;
    Ok(())
}

/// Everything up to the empty line, byte by byte: what follows is not ours.
async fn head(stream: &mut TcpStream) -> anyhow::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > LONGEST {
            bail!("the head is longer than {LONGEST}");
        }
        head.push(stream.read_u8().await.context("reading the head")?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
