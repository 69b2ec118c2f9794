//! Who may open a stream as what: the caller's proven identity against what its node claims.

use futures::future::BoxFuture;
use ironsail_model::Proxy;
use ironsail_names::SpiffeId;
use tonic::Status;

/// Finds out who calls. Implemented over tokens and client certificates by the program.
pub trait Authenticate: Send + Sync + 'static {
    /// The identities that the caller proved; None on a port that asks for no proof. An error ends
    /// the stream.
    fn authenticate<'a>(
        &'a self,
        headers: &'a http::HeaderMap,
        connection: &'a http::Extensions,
    ) -> BoxFuture<'a, Result<Option<Identity>, Status>>;
}

/// Says who may have Secrets of its own namespace, as gateways need to.
pub trait SecretAccess: Send + Sync + 'static {
    fn may_read_secrets<'a>(&'a self, identity: &'a Identity) -> BoxFuture<'a, bool>;
}

/// A proven identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity(pub SpiffeId);

/// For the plaintext port: a proxy is who it says it is. Such a port listens on loopback by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plaintext;

impl Authenticate for Plaintext {
    fn authenticate<'a>(
        &'a self,
        _: &'a http::HeaderMap,
        _: &'a http::Extensions,
    ) -> BoxFuture<'a, Result<Option<Identity>, Status>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// Refuses a proxy that claims a namespace or an account other than its identity's.
pub(crate) fn authorize(proxy: &Proxy, identity: &Identity) -> Result<(), Status> {
    let own = &identity.0;
    if proxy.namespace != own.namespace {
        return Err(Status::permission_denied(format!(
            "proxy {} says it is in namespace {}, but {own} called",
            proxy.id, proxy.namespace
        )));
    }
    match &proxy.service_account {
        Some(account) if *account != own.service_account => Err(Status::permission_denied(
            format!("proxy {} says its service account is {account}, but {own} called", proxy.id),
        )),
        _ => Ok(()),
    }
}
