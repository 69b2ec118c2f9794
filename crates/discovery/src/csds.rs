//! Client status (CSDS): what each proxy has and how it took it, over gRPC.

use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use ironsail_proto::envoy::service::status::v3::client_status_discovery_service_server::{
    ClientStatusDiscoveryService, ClientStatusDiscoveryServiceServer,
};
use ironsail_proto::envoy::service::status::v3::{ClientStatusRequest, ClientStatusResponse};
use ironsail_proto::envoy::r#type::matcher::v3::{NodeMatcher, string_matcher::MatchPattern};
use tonic::{Request, Response, Status, Streaming};

use crate::auth::Authenticate;
use crate::connection::Connection;
use crate::debug::Access;
use crate::{Engine, dump};

/// The service to mount beside discovery.
pub struct ClientStatus {
    engine: Arc<Engine>,
    authenticate: Arc<dyn Authenticate>,
}

impl ClientStatus {
    pub fn service(
        engine: Arc<Engine>,
        authenticate: Arc<dyn Authenticate>,
    ) -> ClientStatusDiscoveryServiceServer<Self> {
        ClientStatusDiscoveryServiceServer::new(Self { engine, authenticate })
    }

    async fn access<T>(&self, request: &Request<T>) -> Result<Access, Status> {
        let headers = request.metadata().clone().into_headers();
        let identity = self.authenticate.authenticate(&headers, request.extensions()).await?;
        match self.engine.access(identity.as_ref()) {
            Access::Nothing => Err(Status::unauthenticated("client status needs an identity")),
            access => Ok(access),
        }
    }
}

fn answer(
    engine: &Engine,
    access: &Access,
    request: &ClientStatusRequest,
) -> Result<ClientStatusResponse, Status> {
    let mut config = Vec::new();
    for connection in engine.connections.all() {
        if access.sees(&connection) && matches(&request.node_matchers, &connection)? {
            config.push(dump::client_config(&connection, !request.exclude_resource_contents));
        }
    }
    Ok(ClientStatusResponse { config })
}

/// No matcher means every proxy; of several one is enough.
fn matches(matchers: &[NodeMatcher], connection: &Connection) -> Result<bool, Status> {
    let mut any = matchers.is_empty();
    for matcher in matchers {
        if !matcher.node_metadatas.is_empty() {
            return Err(Status::unimplemented("matching nodes by metadata is not supported yet"));
        }
        let id = &*connection.proxy.id;
        any |= match matcher.node_id.as_ref().and_then(|m| m.match_pattern.as_ref()) {
            None => true,
            Some(MatchPattern::Exact(exact)) => id == exact,
            Some(MatchPattern::Prefix(prefix)) => id.starts_with(prefix.as_str()),
            Some(MatchPattern::Suffix(suffix)) => id.ends_with(suffix.as_str()),
            Some(MatchPattern::Contains(part)) => id.contains(part.as_str()),
            Some(_) => {
                return Err(Status::unimplemented("this match of node ids is not supported yet"));
            }
        };
    }
    Ok(any)
}

#[tonic::async_trait]
impl ClientStatusDiscoveryService for ClientStatus {
    type StreamClientStatusStream =
        Pin<Box<dyn Stream<Item = Result<ClientStatusResponse, Status>> + Send>>;

    async fn stream_client_status(
        &self,
        request: Request<Streaming<ClientStatusRequest>>,
    ) -> Result<Response<Self::StreamClientStatusStream>, Status> {
        let access = self.access(&request).await?;
        let engine = self.engine.clone();
        let answers = request.into_inner().map(move |request| answer(&engine, &access, &request?));
        Ok(Response::new(Box::pin(answers)))
    }

    async fn fetch_client_status(
        &self,
        request: Request<ClientStatusRequest>,
    ) -> Result<Response<ClientStatusResponse>, Status> {
        let access = self.access(&request).await?;
        answer(&self.engine, &access, request.get_ref()).map(Response::new)
    }
}
