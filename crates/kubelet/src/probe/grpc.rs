//! The gRPC health check of a probe.

use std::net::IpAddr;

use hyper_util::rt::TokioIo;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use super::Dial;

#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

const SERVING: i32 = 1;

/// Asks the health service at `ip:port` about `service`; `Err` says why it is not serving.
pub async fn check(
    ip: IpAddr,
    port: u16,
    service: &str,
    agent: &str,
    dial: &dyn Dial,
) -> Result<(), String> {
    let stream = dial.dial(&ip.to_string(), port).await.map_err(|e| {
        format!(
            "timeout: failed to connect service \"{}\" within the probe's timeout: {e}",
            std::net::SocketAddr::new(ip, port)
        )
    })?;
    let mut stream = Some(TokioIo::new(stream));
    let connector = tower::service_fn(move |_| {
        let stream =
            stream.take().ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected));
        std::future::ready(stream)
    });
    let endpoint = Endpoint::from_static("http://health.invalid")
        .user_agent(agent)
        .map_err(|e| e.to_string())?;
    let channel =
        endpoint.connect_with_connector(connector).await.map_err(|e| crate::network::chain(&e))?;
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|e| crate::network::chain(&e))?;
    let path = http::uri::PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    let request = tonic::Request::new(HealthCheckRequest { service: service.to_owned() });
    let codec: ProstCodec<HealthCheckRequest, HealthCheckResponse> = ProstCodec::default();
    match client.unary(request, path, codec).await {
        Ok(answer) if answer.get_ref().status == SERVING => Ok(()),
        Ok(answer) => {
            let word = match answer.get_ref().status {
                0 => "UNKNOWN",
                2 => "NOT_SERVING",
                3 => "SERVICE_UNKNOWN",
                _ => "an unknown status",
            };
            Err(format!("service unhealthy (responded with \"{word}\")"))
        }
        Err(status) if status.code() == tonic::Code::Unimplemented => Err(format!(
            "this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
            status.message()
        )),
        Err(status) => Err(format!("health rpc failed: {}", status.message())),
    }
}
