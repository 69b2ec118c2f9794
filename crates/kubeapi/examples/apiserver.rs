//! The API alone on a loopback port, to try it with `kubectl`: no nodes, no controllers.
//!
//! `cargo run -p ironsail-kubeapi --example apiserver -- DIRECTORY PORT` writes DIRECTORY/kubeconfig
//! and serves until it is ended.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use ironsail_kubeapi::admission::{Dial, Stream};
use ironsail_kubeapi::auth::pki::Pki;
use ironsail_kubeapi::{Config, Server};
use ironsail_sys::clock::Clock;
use tokio_util::sync::CancellationToken;

/// Webhooks are reached as this machine reaches them.
struct Direct;

impl Dial for Direct {
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let stream = tokio::net::TcpStream::connect(address).await?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("no directory given")?);
    let port: u16 = arguments.next().ok_or("no port given")?.parse()?;
    std::fs::create_dir_all(&directory)?;
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let clock = Clock::system();
    let pki = Pki::open(&directory, &[address], &clock)?;
    let config = Config {
        directory: directory.clone(),
        service_ranges: vec!["10.96.0.0/16".parse()?],
        issuer: "https://kubernetes.default.svc.cluster.local".to_owned(),
        endpoint: None,
    };
    let server = Server::open(&config, Arc::new(Direct), clock).await?;
    let listener = tokio::net::TcpListener::bind((address, port)).await?;
    let url = format!("https://{}", listener.local_addr()?);
    std::fs::write(directory.join("kubeconfig"), pki.kubeconfig(&url))?;
    let stop = CancellationToken::new();
    let ended = stop.clone();
    let ending = server.clone();
    tokio::spawn(async move {
        drop(tokio::signal::ctrl_c().await);
        ending.end_watches();
        ended.cancel();
    });
    server.serve(listener, pki.server_config()?, stop).await;
    Ok(())
}
