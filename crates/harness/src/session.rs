//! A session as a client's bytes see it: an upgrade request in front, the bytes behind it, and a
//! node that runs nothing.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use ironsail_kubestream::pod::{
    Duplex, Error, ExecIo, ExecOptions, Exit, LogOptions, PodRef, PodStreams,
};
use ironsail_kubestream::{exec, forward};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Copies input to output; port 7 echoes, port 13 hangs up.
struct Node;

impl PodStreams for Node {
    fn logs(
        &self,
        _: PodRef,
        _: LogOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, std::io::Result<Bytes>>, Error>> {
        Box::pin(async { Err(Error::NotFound("no logs".to_owned())) })
    }

    fn exec(
        &self,
        _: PodRef,
        options: ExecOptions,
        mut io: ExecIo,
    ) -> BoxFuture<'_, Result<Exit, Error>> {
        Box::pin(async move {
            if let (Some(stdin), Some(stdout)) = (&mut io.stdin, &mut io.stdout) {
                let _ = tokio::io::copy(stdin, stdout).await;
            }
            while options.tty && io.resize.recv().await.is_some() {}
            Ok(Exit { code: 3 })
        })
    }

    fn connect(&self, _: PodRef, port: u16) -> BoxFuture<'_, Result<Box<dyn Duplex>, Error>> {
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(1 << 12);
            if port == 7 {
                tokio::spawn(async move {
                    let (mut reader, mut writer) = tokio::io::split(far);
                    let _ = tokio::io::copy(&mut reader, &mut writer).await;
                });
            } else if port != 13 {
                return Err(Error::Internal("connection refused".to_owned()));
            }
            Ok(Box::new(near) as Box<dyn Duplex>)
        })
    }
}

fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (mut parts, _) = request.into_parts();
    let pod = PodRef { namespace: "a".to_owned(), name: "p".to_owned() };
    let upgrade = match parts.uri.path() {
        "/portforward" => forward::accept(&mut parts, pod, &[7, 13, 99], Arc::new(Node)),
        path => {
            let options =
                ExecOptions { container: None, command: vec!["x".to_owned()], tty: path == "/tty" };
            let request = exec::Request { pod, options, stdin: true, stdout: true, stderr: true };
            exec::accept(&mut parts, request, Arc::new(Node))
        }
    };
    match upgrade {
        Ok(upgrade) => {
            tokio::spawn(upgrade.session);
            upgrade.response.map(|()| Full::default())
        }
        Err(refused) => Response::builder()
            .status(refused.code)
            .body(Full::from(refused.message))
            .expect("a refusal is a response"),
    }
}

/// Sends `head` and, once that is answered, `bytes`; reads until the server hangs up. Panics if it
/// does not: a client that closes its end must not hold a session for ever.
pub(crate) fn run(head: &str, bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let (near, far) = tokio::io::duplex(1 << 12);
        let service = hyper::service::service_fn(|request| async {
            Ok::<_, std::convert::Infallible>(answer(request))
        });
        let server = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(far), service)
            .with_upgrades();
        tokio::spawn(server);
        let (mut reader, mut writer) = tokio::io::split(near);
        let write = async {
            let _ = writer.write_all(head.as_bytes()).await;
            let _ = writer.write_all(bytes).await;
            let _ = writer.shutdown().await;
        };
        let read = async {
            let mut sink = vec![0; 1 << 14];
            while reader.read(&mut sink).await.is_ok_and(|length| length > 0) {}
        };
        let both = async { tokio::join!(write, read) };
        // Time stands still while anything can go on, so this passes only when nothing can.
        let ended = tokio::time::timeout(Duration::from_secs(600), both).await;
        assert!(ended.is_ok(), "the session outlives its client");
    });
}

/// An upgrade to a WebSocket with `protocol`.
pub(crate) fn websocket_head(path: &str, protocol: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         sec-websocket-protocol: {protocol}\r\n\r\n"
    )
}

/// An upgrade to SPDY with `protocol`.
pub(crate) fn spdy_head(path: &str, protocol: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\
         x-stream-protocol-version: {protocol}\r\ncontent-length: 0\r\n\r\n"
    )
}

/// One WebSocket frame as clients send it, masked with zeros.
pub(crate) fn websocket_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match u16::try_from(payload.len()) {
        Ok(length @ 0..126) => out.push(0x80 | u8::try_from(length).expect("below 126")),
        Ok(length) => {
            out.push(0x80 | 126);
            out.extend_from_slice(&length.to_be_bytes());
        }
        Err(_) => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
    out
}
