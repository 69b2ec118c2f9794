//! `extensionProviders` that decide on requests: found by name, their service by host.

use ironsail_api::mesh::{ExtAuthzGrpc, ExtAuthzHttp, MeshConfig, Provider};
use ironsail_api::wire::Wire;
use ironsail_model::{Scope, Service};
use ironsail_names::{ClusterName, Hostname};
use ironsail_proto::envoy::r#type::v3::{HttpStatus, StatusCode};

/// Who decides, with all that is needed to ask.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Authorizer {
    pub(super) how: How,
    pub(super) host: String,
    pub(super) cluster: String,
    pub(super) status: Option<HttpStatus>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum How {
    Http(ExtAuthzHttp),
    Grpc(ExtAuthzGrpc),
}

impl Authorizer {
    /// The provider of that name, or why it cannot be used.
    pub(super) fn find(config: &MeshConfig, scope: &Scope, name: &str) -> Result<Self, String> {
        let found = config.extension_providers.iter().find(|provider| provider.name == name);
        let Some(found) = found else {
            return Err(format!("the mesh has no extension provider {name:?}"));
        };
        let how = match &found.provider {
            Provider::EnvoyExtAuthzHttp(http) => How::Http(http.clone()),
            Provider::EnvoyExtAuthzGrpc(grpc) => How::Grpc(grpc.clone()),
            _ => return Err(format!("extension provider {name:?} is no authorizer")),
        };
        let (service, port, status) = match &how {
            How::Http(http) => (&http.service, http.port, &http.status_on_error),
            How::Grpc(grpc) => (&grpc.service, grpc.port, &grpc.status_on_error),
        };
        if let How::Http(http) = &how
            && !http.path_prefix.is_empty()
            && !http.path_prefix.starts_with('/')
        {
            return Err(format!("pathPrefix of extension provider {name:?} must begin with /"));
        }
        let status = self::status(status)
            .map_err(|why| format!("statusOnError of extension provider {name:?}: {why}"))?;
        let (host, cluster) = cluster_of(scope, service, port)
            .map_err(|why| format!("extension provider {name:?}: {why}"))?;
        Ok(Self { how, host, cluster, status })
    }

    /// All that its filters depend on.
    pub(super) fn content(&self) -> (String, &str, &str) {
        let text = match &self.how {
            How::Http(http) => format!("http {}", http.write()),
            How::Grpc(grpc) => format!("grpc {}", grpc.write()),
        };
        (text, &self.host, &self.cluster)
    }
}

fn status(text: &str) -> Result<Option<HttpStatus>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let code = text.parse::<i32>().ok().filter(|code| *code >= 100);
    let code = code.and_then(|code| StatusCode::try_from(code).ok());
    let code = code.ok_or_else(|| format!("{text:?} is no status of HTTP"))?;
    Ok(Some(HttpStatus { code: code.into() }))
}

/// The host and cluster of `host` or `namespace/host`, if the proxy has it.
pub(super) fn cluster_of(
    scope: &Scope,
    service: &str,
    port: u32,
) -> Result<(String, String), String> {
    let Some(port) = u16::try_from(port).ok().filter(|port| *port != 0) else {
        return Err(format!("{port} is no port"));
    };
    let (namespace, host) = match service.split_once('/') {
        Some((namespace, host)) => (Some(namespace), host),
        None => (None, service),
    };
    let parsed: Hostname = host.parse().map_err(|_| format!("{service:?} is no service"))?;
    let in_namespace = |service: &&std::sync::Arc<Service>| {
        namespace.is_none_or(|namespace| service.namespace().as_str() == namespace)
    };
    let Some(found) = scope.service(&parsed).filter(in_namespace) else {
        return Err(format!("the workload does not see a service {service:?}"));
    };
    if found.port(port).is_none() {
        return Err(format!("service {service:?} has no port {port}"));
    }
    let cluster = ClusterName::outbound(port, "", parsed).to_string();
    Ok((host.to_owned(), cluster))
}

#[cfg(test)]
mod tests {
    use super::status;

    #[test]
    fn a_status_is_one_that_envoy_knows() {
        assert_eq!(status("").unwrap(), None);
        assert_eq!(status("503").unwrap().unwrap().code, 503);
        for bad in ["0", "99", "299", "600", "x", "-1"] {
            assert!(status(bad).is_err(), "{bad}");
        }
    }
}
