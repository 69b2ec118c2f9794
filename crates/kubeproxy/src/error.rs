//! What can go wrong.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open the sockets of cluster DNS")]
    Dns(#[source] ironsail_podnet::Error),
    #[error("the cluster domain {domain:?} is not a DNS name")]
    Domain { domain: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("cannot publish {kind} {namespace}/{name}")]
    Publish { kind: &'static str, namespace: String, name: String, source: Box<kube::Error> },
    #[error("cannot write the status of Service {namespace}/{name}")]
    Status { namespace: String, name: String, source: Box<kube::Error> },
    #[error("cannot write an Event about Service {namespace}/{name}")]
    Event { namespace: String, name: String, source: Box<kube::Error> },
}
