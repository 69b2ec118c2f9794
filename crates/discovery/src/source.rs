//! The seam to the xDS server: who a caller is, whether it may come in, and its feed.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use ironsail_identity::tls::PeerCertificates;
use ironsail_model::Proxy;
use ironsail_xds::server::{Caller, Feed, Source};
use tokio::time::Instant;
use tonic::Status;
use tracing::info;

use crate::Engine;
use crate::auth::{Authenticate, Identity, authorize};
use crate::bootstrap::{BOOTSTRAP, BootstrapFeed};
use crate::connection::Opened;
use crate::debug::DebugFeed;
use crate::feed::ProxyFeed;

/// Serves one port.
pub struct Port {
    engine: Arc<Engine>,
    authenticate: Arc<dyn Authenticate>,
}

impl Port {
    pub fn new(engine: Arc<Engine>, authenticate: Arc<dyn Authenticate>) -> Self {
        Self { engine, authenticate }
    }

    async fn enter(&self, caller: Caller) -> Result<Box<dyn Feed>, Status> {
        self.wait_for_turn().await?;
        let identity = self.authenticate.authenticate(&caller.headers, &caller.extensions).await?;
        let access = self.engine.access(identity.as_ref());
        // istioctl and its like: no proxy, no configuration.
        if ["debug~", "api~"].iter().any(|kind| caller.node.id.starts_with(kind)) {
            return Ok(Box::new(DebugFeed { engine: self.engine.clone(), access }));
        }
        let mut proxy = self.proxy(&caller, identity.as_ref())?;
        let patience = self.engine.settings.patience;
        let first = tokio::time::timeout(patience, self.engine.first_publication()).await;
        let mut publication = first
            .ok()
            .flatten()
            .ok_or_else(|| Status::unavailable("not all objects have been read yet"))?;
        if &*caller.type_url == BOOTSTRAP {
            let class = publication.snapshot.class_of(&proxy);
            return Ok(Box::new(BootstrapFeed::new(caller.node, &class, &publication)));
        }
        self.engine.wait_for_keys().await;
        let turn = self.engine.newcomers.clone().acquire_owned().await.ok();
        publication = self.engine.publication().unwrap_or(publication);
        let class = self.engine.class(publication.snapshot.class_of(&proxy), identity.is_some());
        class.share(&mut proxy);
        let opened = Opened {
            peer: caller.extensions.get::<SocketAddr>().copied(),
            variant: caller.variant,
            since: self.engine.now(),
            proxy: Arc::new(proxy),
            identity,
            shown: caller.extensions.get::<PeerCertificates>().and_then(|shown| shown.leaf().ok()),
            class,
        };
        let added = self.engine.connections.add(opened);
        // Whoever was entered after a publication was not looked at for it.
        if let Some(later) = self.engine.publication().filter(|p| p.revision > publication.revision)
        {
            self.engine.reclassify_one(&added.1, &later);
        }
        info!(target: "ads", "new connection for node:{}", added.1.id);
        self.engine.counters.opened();
        Ok(Box::new(ProxyFeed::new(self.engine.clone(), added, access, turn)))
    }

    async fn wait_for_turn(&self) -> Result<(), Status> {
        match self.engine.limit.turn(Instant::now()) {
            Some(wait) => {
                tokio::time::sleep(wait).await;
                Ok(())
            }
            None => {
                self.engine.counters.limited();
                Err(Status::resource_exhausted("too many proxies come at once; try again"))
            }
        }
    }

    fn proxy(&self, caller: &Caller, identity: Option<&Identity>) -> Result<Proxy, Status> {
        let mut proxy = Proxy::parse(&caller.node, &self.engine.settings.cluster)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        if let Some(identity) = identity {
            authorize(&proxy, identity)?;
            proxy.service_account = Some(identity.0.service_account.clone());
        }
        Ok(proxy)
    }
}

impl Source for Port {
    fn open(&self, caller: Caller) -> BoxFuture<'_, Result<Box<dyn Feed>, Status>> {
        Box::pin(async move {
            let entered = self.enter(caller).await;
            if let Err(status) = &entered {
                self.engine.counters.refused();
                info!(target: "ads", code = ?status.code(), "refused: {}", status.message());
            }
            entered
        })
    }
}
