//! gRPC: `ironsail.echo.v1.Echo/Echo` (text in, report out) and the standard health check.
//!
//! The messages are two fields each, so they are written here instead of being generated.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::extract::{Request, State};
use axum::http::Response;
use axum::response::IntoResponse;
use futures::future::BoxFuture;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tower::Service;

use crate::report::{Connection, Report};

pub(crate) const ECHO: &str = "/ironsail.echo.v1.Echo/Echo";
pub(crate) const HEALTH: &str = "/grpc.health.v1.Health/Check";

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct EchoRequest {
    #[prost(string, tag = "1")]
    pub(crate) message: String,
    /// A gRPC status to answer with instead of a report.
    #[prost(int32, tag = "2")]
    pub(crate) code: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct EchoReply {
    /// The report, as JSON.
    #[prost(string, tag = "1")]
    pub(crate) report: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HealthRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HealthReply {
    /// 1 is SERVING.
    #[prost(int32, tag = "1")]
    status: i32,
}

pub(crate) async fn echo(
    State(seen): State<Connection>,
    request: Request,
) -> Response<tonic::body::Body> {
    let mut grpc = tonic::server::Grpc::new(ProstCodec::<EchoReply, EchoRequest>::default());
    grpc.unary(
        Unary(move |request: tonic::Request<EchoRequest>| report(seen.clone(), &request)),
        request,
    )
    .await
}

fn report(seen: Connection, request: &tonic::Request<EchoRequest>) -> Result<EchoReply, Status> {
    let code = request.get_ref().code;
    if code != 0 {
        return Err(Status::new(Code::from_i32(code), "as asked"));
    }
    let mut report = Report::new(seen, "gRPC", request.get_ref().message.as_bytes());
    report.path = Some(ECHO.to_owned());
    report.headers = crate::report::header_lists(&request.metadata().clone().into_headers());
    Ok(EchoReply { report: report.json() })
}

pub(crate) async fn health(request: Request) -> impl IntoResponse {
    let mut grpc = tonic::server::Grpc::new(ProstCodec::<HealthReply, HealthRequest>::default());
    let serving = |_: tonic::Request<HealthRequest>| Ok(HealthReply { status: 1 });
    grpc.unary(Unary(serving), request).await
}

/// A plain function as tonic's unary service.
pub(crate) struct Unary<F>(pub(crate) F);

impl<F, Q, A> Service<tonic::Request<Q>> for Unary<F>
where
    F: Fn(tonic::Request<Q>) -> Result<A, Status>,
    Q: Send + 'static,
    A: Send + 'static,
{
    type Response = tonic::Response<A>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(
        &mut self,
        request: tonic::Request<Q>,
    ) -> BoxFuture<'static, Result<Self::Response, Status>> {
        let answer = (self.0)(request).map(tonic::Response::new);
        Box::pin(std::future::ready(answer))
    }
}
