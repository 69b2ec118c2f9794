//! One look at the application: a request, a connection, a program, or gRPC's health service.

use std::net::IpAddr;
use std::process::Stdio;

use anyhow::Context;
use axum::http::{HeaderMap, HeaderValue, header};
use ironsail_api::istio::networking::HealthCheckMethod;
use ironsail_sys::exec;

use crate::proxy::status::{Grpc, Header, HttpGet, Probe, TcpPort};

/// How to look.
pub(super) enum Look {
    Ask { host: String, own: Option<IpAddr>, probe: Probe },
    Run(Vec<String>),
}

fn port(number: u32) -> anyhow::Result<u16> {
    u16::try_from(number).ok().filter(|port| *port != 0).context("readinessProbe: no such port")
}

impl Look {
    /// Without a host it is this machine: loopback, in the family of its first address.
    pub(super) fn new(method: &HealthCheckMethod, own: &[IpAddr]) -> anyhow::Result<Self> {
        let own = own.first().copied();
        let ask = |host: &str, probe| Self::Ask { host: host.to_owned(), own, probe };
        Ok(match method {
            HealthCheckMethod::HttpGet(get) => {
                let header = |header: &ironsail_api::istio::networking::HttpHeader| Header {
                    name: header.name.clone(),
                    value: header.value.clone(),
                };
                let http_get = HttpGet {
                    path: get.path.clone(),
                    port: port(get.port)?,
                    scheme: get.scheme.clone(),
                    host: match get.host.as_str() {
                        "" => format!("localhost:{}", get.port),
                        host => format!("{host}:{}", get.port),
                    },
                    http_headers: get.http_headers.iter().map(header).collect(),
                };
                ask(&get.host, Probe { http_get: Some(http_get), ..Probe::default() })
            }
            HealthCheckMethod::TcpSocket(tcp) => {
                let tcp_socket = Some(TcpPort { port: port(tcp.port)? });
                ask(&tcp.host, Probe { tcp_socket, ..Probe::default() })
            }
            HealthCheckMethod::Grpc(grpc) => {
                let service = Some(grpc.service.clone());
                let grpc = Some(Grpc { port: port(grpc.port)?, service });
                ask("", Probe { grpc, ..Probe::default() })
            }
            HealthCheckMethod::Exec(exec) => {
                anyhow::ensure!(!exec.command.is_empty(), "readinessProbe.exec has no command");
                Self::Run(exec.command.clone())
            }
            HealthCheckMethod::Unset => anyhow::bail!("readinessProbe does not say how to look"),
        })
    }

    pub(super) async fn once(&self) -> anyhow::Result<()> {
        match self {
            Self::Run(command) => run(command).await,
            Self::Ask { host, own, probe } => {
                let host = resolve(host, *own).await?;
                let mut headers = HeaderMap::new();
                headers.insert(header::USER_AGENT, HeaderValue::from_static("istio-probe/1.0"));
                let status = probe.run(host, &headers).await?;
                let good = (200..400).contains(&status.as_u16());
                anyhow::ensure!(good, "status code was not from [200,400): {status}");
                Ok(())
            }
        }
    }
}

async fn resolve(host: &str, own: Option<IpAddr>) -> anyhow::Result<IpAddr> {
    if host.is_empty() || host == "localhost" {
        let v6 = own.is_some_and(|own| own.is_ipv6());
        let v6_loopback = IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]);
        return Ok(if v6 { v6_loopback } else { IpAddr::from([127, 0, 0, 1]) });
    }
    let what = || format!("looking up {host}");
    let mut found = tokio::net::lookup_host((host, 0)).await.with_context(what)?;
    Ok(found.next().with_context(what)?.ip())
}

/// The program is killed if nobody waits for it any more.
async fn run(command: &[String]) -> anyhow::Result<()> {
    let (program, arguments) = command.split_first().context("no command")?;
    let mut command = exec::async_command(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.kill_on_drop(true).spawn().with_context(|| program.clone())?;
    let status = child.wait().await?;
    anyhow::ensure!(status.success(), "{program}: {status}");
    Ok(())
}
