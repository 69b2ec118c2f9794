//! The control plane's secure port as somebody on the network sees it: a way to it, what may be shown
//! there, and what came of it.

use std::time::Duration;

use futures::StreamExt;
use ironsail_identity::client::{CaClient, Config, Error, Security, Token, channel};
use ironsail_identity::tls::{Shown, Trusted};
use ironsail_identity::{Certificate, Credential, RootBundle, TrustBundles};
use ironsail_names::SpiffeId;
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use ironsail_proto::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use ironsail_sys::clock::Clock;
use ironsail_testkit::{Case, SYSTEM, eventually};
use ironsail_xds::CDS;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use serde_json::json;
use tokio::net::TcpListener;
use tonic::Code;

/// 15012 of the control plane, and its root.
pub(crate) struct Door {
    address: String,
    roots: RootBundle,
}

impl Door {
    /// By port-forward, which is TCP to the port; TLS and all else is done here.
    pub(crate) async fn open(case: &Case) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let pods: Api<Pod> = Api::namespaced(case.client.clone(), SYSTEM);
        let istiod = case.istiod().await;
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let Ok(mut forward) = pods.portforward(&istiod, &[15012]).await else { continue };
                let Some(mut far) = forward.take_stream(15012) else { continue };
                tokio::spawn(async move {
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        let maps: Api<ConfigMap> = Api::namespaced(case.client.clone(), &case.namespace);
        let root = eventually("the mesh's root", async || {
            let map = maps.get("istio-ca-root-cert").await.map_err(|e| e.to_string())?;
            map.data.and_then(|d| d.get("root-cert.pem").cloned()).ok_or_else(String::new)
        })
        .await;
        Self { address, roots: RootBundle::from_pem(root.as_bytes()).unwrap() }
    }

    fn config(&self, token: Option<&str>, shown: Option<&Credential>) -> Config {
        let trusted = Trusted::new(TrustBundles::of(self.roots.clone()));
        let server_name = Some("istiod.istio-system.svc".to_owned());
        let shown = shown.map(|shown| Shown::new(shown.clone())).unwrap_or_default();
        let security = Security::Tls { server_name, trusted, shown };
        let token = token.map_or(Token::None, |token| Token::Fixed(token.to_owned().into()));
        let timeout = Duration::from_secs(60);
        Config { attempts: 1, timeout, ..Config::new(&self.address, security, token) }
    }

    /// What the CA makes of a request.
    pub(crate) async fn sign(
        &self,
        proof: Proof<'_>,
        csr: &str,
        lifetime: Duration,
        impersonate: Option<&SpiffeId>,
    ) -> Result<Vec<Certificate>, Code> {
        let config = self.config(proof.token, proof.certificate);
        let client = CaClient::new(config, Clock::system()).unwrap();
        match client.sign(csr, lifetime, impersonate).await {
            Ok(chain) => Ok(chain),
            Err(Error::Refused { status, .. }) => Err(status.code()),
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Whether a proxy of `namespace` is served.
    pub(crate) async fn discover(&self, proof: Proof<'_>, namespace: &str) -> Result<(), Code> {
        let metadata = json!({"NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes", "LABELS": {}});
        let node = Node {
            id: format!("sidecar~10.0.0.9~eve.{namespace}~{namespace}.svc.cluster.local"),
            metadata: metadata.as_object().cloned().map(Into::into),
            ..Node::default()
        };
        let asked =
            DeltaDiscoveryRequest { node: Some(node), type_url: CDS.into(), ..Default::default() };
        let asked = futures::stream::iter([asked]).chain(futures::stream::pending());
        let mut request = tonic::Request::new(asked);
        if let Some(token) = proof.token {
            let value = format!("Bearer {token}");
            request.metadata_mut().insert("authorization", value.parse().unwrap());
        }
        let channel = channel(&self.config(proof.token, proof.certificate)).unwrap();
        let mut client = AggregatedDiscoveryServiceClient::new(channel);
        let answer = async {
            let stream = client.delta_aggregated_resources(request).await;
            let message = stream.map_err(|status| status.code())?.into_inner().message().await;
            message.map_err(|status| status.code())?.map(drop).ok_or(Code::Cancelled)
        };
        tokio::time::timeout(Duration::from_secs(60), answer).await.expect("an answer")
    }
}

/// By what a caller wants to be known.
#[derive(Clone, Copy, Default)]
pub(crate) struct Proof<'a> {
    pub(crate) token: Option<&'a str>,
    pub(crate) certificate: Option<&'a Credential>,
}

impl<'a> Proof<'a> {
    pub(crate) fn token(token: &'a str) -> Self {
        Self { token: Some(token), certificate: None }
    }

    pub(crate) fn certificate(certificate: &'a Credential) -> Self {
        Self { token: None, certificate: Some(certificate) }
    }
}
