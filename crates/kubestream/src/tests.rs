//! For tests: a node that runs made-up commands, a server in front of it, and a SPDY client.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::pod::{Duplex, Error, ExecIo, ExecOptions, Exit, LogOptions, PodRef, PodStreams};
use crate::{exec, forward};

pub(crate) mod client;

/// A node that knows the commands `echo`, `cat`, `size`, `exit`, `fail` and `hang`, and the ports
/// 7 (echoes) and 13 (says the time of day and hangs up).
#[derive(Default)]
pub(crate) struct Node {
    /// Commands that hang right now.
    pub(crate) hanging: AtomicUsize,
}

struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl PodStreams for Node {
    fn logs(
        &self,
        _: PodRef,
        _: LogOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, std::io::Result<Bytes>>, Error>> {
        Box::pin(async { Err(Error::Internal("no logs here".to_owned())) })
    }

    fn exec(
        &self,
        _: PodRef,
        options: ExecOptions,
        mut io: ExecIo,
    ) -> BoxFuture<'_, Result<Exit, Error>> {
        Box::pin(async move {
            let words: Vec<_> = options.command.iter().map(String::as_str).collect();
            let internal = |e: std::io::Error| Error::Internal(e.to_string());
            match words.as_slice() {
                ["echo", out, err] => {
                    if let Some(stdout) = &mut io.stdout {
                        stdout.write_all(out.as_bytes()).await.map_err(internal)?;
                    }
                    if let Some(stderr) = &mut io.stderr {
                        stderr.write_all(err.as_bytes()).await.map_err(internal)?;
                    }
                    Ok(Exit { code: 0 })
                }
                ["cat"] => {
                    let (mut stdin, mut stdout) = (io.stdin.unwrap(), io.stdout.unwrap());
                    tokio::io::copy(&mut stdin, &mut stdout).await.map_err(internal)?;
                    Ok(Exit { code: 0 })
                }
                ["size"] => {
                    let size = io.resize.recv().await.unwrap();
                    let text = format!("{}x{}", size.columns, size.rows);
                    io.stdout.unwrap().write_all(text.as_bytes()).await.map_err(internal)?;
                    Ok(Exit { code: 0 })
                }
                ["exit", code] => Ok(Exit { code: code.parse().unwrap() }),
                ["hang"] => {
                    self.hanging.fetch_add(1, Ordering::SeqCst);
                    let _counted = Counted(&self.hanging);
                    std::future::pending().await
                }
                other => Err(Error::Internal(format!("{other:?}: no such program"))),
            }
        })
    }

    fn connect(&self, _: PodRef, port: u16) -> BoxFuture<'_, Result<Box<dyn Duplex>, Error>> {
        Box::pin(async move {
            let (near, mut far) = tokio::io::duplex(1 << 16);
            match port {
                7 => {
                    tokio::spawn(async move {
                        let (mut reader, mut writer) = tokio::io::split(far);
                        tokio::io::copy(&mut reader, &mut writer).await?;
                        writer.shutdown().await
                    });
                }
                13 => {
                    tokio::spawn(async move { far.write_all(b"noon").await });
                }
                _ => return Err(Error::Internal("connection refused".to_owned())),
            }
            Ok(Box::new(near) as Box<dyn Duplex>)
        })
    }
}

/// Starts a server in front of `node`.
pub(crate) async fn serve(node: Arc<Node>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let node = Arc::clone(&node);
            let service = hyper::service::service_fn(move |request| {
                let answer = answer(request, Arc::clone(&node));
                async move { Ok::<_, std::convert::Infallible>(answer) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            tokio::spawn(connection);
        }
    });
    address
}

fn answer(request: Request<Incoming>, node: Arc<Node>) -> Response<Full<Bytes>> {
    let (mut parts, _) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let query = query(parts.uri.query().unwrap_or_default());
    let all = |key: &str| query.get(key).cloned().unwrap_or_default();
    let flag = |key: &str| all(key).first().is_some_and(|v| v == "true" || v == "1");
    let pod = PodRef { namespace: "a".to_owned(), name: "p".to_owned() };
    let upgrade = if path.ends_with("/exec") {
        let options = ExecOptions { container: None, command: all("command"), tty: flag("tty") };
        let request = exec::Request {
            pod,
            options,
            stdin: flag("stdin"),
            stdout: flag("stdout"),
            stderr: flag("stderr"),
        };
        exec::accept(&mut parts, request, node)
    } else if path.ends_with("/portforward") {
        let ports: Vec<u16> =
            all("ports").iter().flat_map(|p| p.split(',')).filter_map(|p| p.parse().ok()).collect();
        forward::accept(&mut parts, pod, &ports, node)
    } else {
        let pod = serde_json::json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "p", "namespace": "a" },
            "spec": { "containers": [{ "name": "c" }] }, "status": { "phase": "Running" } });
        return Response::builder()
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(pod.to_string())))
            .unwrap();
    };
    match upgrade {
        Ok(upgrade) => {
            tokio::spawn(upgrade.session);
            upgrade.response.map(|()| Full::default())
        }
        Err(refused) => Response::builder()
            .status(refused.code)
            .body(Full::new(Bytes::from(refused.message)))
            .unwrap(),
    }
}

fn query(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in text.split('&').filter_map(|pair| pair.split_once('=')) {
        let value = value.replace("%2C", ",").replace("%2F", "/");
        out.entry(key.to_owned()).or_default().push(value);
    }
    out
}

/// Reads until `end` is there.
pub(crate) async fn read_all(reader: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut out = Vec::new();
    reader.read_to_end(&mut out).await.unwrap();
    String::from_utf8(out).unwrap()
}
