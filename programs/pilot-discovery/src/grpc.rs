//! The gRPC ports: discovery without TLS on one, discovery and certificates over TLS on the other.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ironsail_ca::CertificateService;
use ironsail_daemon::task::Supervisor;
use ironsail_discovery::{Authenticate, ClientStatus, Engine, Plaintext, Port};
use ironsail_identity::tls::{ClientCertificates, incoming, server_config_with};
use ironsail_xds::server::{Connections, Discovery, Drain, Settings, serve};
use tokio::net::TcpListener;
use tonic::service::Routes;

use crate::args::Keepalive;
use crate::setting::Setting;
use crate::{authority, identity};

/// Longer than a connection can last: no limit.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

pub(crate) struct Ports {
    pub(crate) engine: Arc<Engine>,
    pub(crate) connections: Connections,
    /// Over which proxies move away when the program ends.
    pub(crate) spread: Duration,
}

pub(crate) fn connections(keepalive: &Keepalive) -> Connections {
    Connections {
        keepalive_interval: keepalive.interval,
        keepalive_timeout: keepalive.timeout,
        max_age: Some(keepalive.max_age).filter(|age| *age < FOREVER),
        ..Connections::default()
    }
}

impl Ports {
    fn routes(&self, authenticate: &Arc<dyn Authenticate>) -> Routes {
        let port = Port::new(self.engine.clone(), authenticate.clone());
        Routes::new(Discovery::new(port, Settings::default()))
            .add_service(ClientStatus::service(self.engine.clone(), authenticate.clone()))
    }

    /// Starts the drain when the program ends; the task that serves ends after it.
    fn drain(&self, tasks: &Supervisor) -> Drain {
        let (drain, stop) = (Drain::new(), tasks.stop_token());
        let (told, spread) = (drain.clone(), self.spread);
        tokio::spawn(async move {
            stop.cancelled().await;
            told.start(spread);
        });
        drain
    }

    /// A proxy is who it says it is.
    pub(crate) fn plaintext(&self, listener: TcpListener, tasks: &mut Supervisor) {
        let authenticate: Arc<dyn Authenticate> = Arc::new(Plaintext);
        let routes = self.routes(&authenticate);
        let (drain, connections) = (self.drain(tasks), self.connections.clone());
        tasks.spawn("discovery without TLS", async move {
            serve(crate::serve::incoming(listener), routes, connections, &drain).await;
            Ok(())
        });
    }

    /// A proxy proves who it is, and may get certificates.
    pub(crate) fn secure(
        &self,
        listener: TcpListener,
        ca: &authority::Started,
        setting: &Setting,
        tasks: &mut Supervisor,
    ) -> anyhow::Result<()> {
        let authenticate: Arc<dyn Authenticate> =
            Arc::new(identity::Proven(ca.authenticator.clone()));
        let mut routes = self.routes(&authenticate);
        if setting.variables.ca_server {
            let authenticator = Arc::new(ca.authenticator.clone());
            let service = CertificateService::new(ca.authority.clone(), authenticator, None)
                .with_registration(ca.registration.clone());
            routes = routes.add_service(service.into_server());
        }
        let clients = ClientCertificates::Optional(ca.trusted.clone());
        let config = server_config_with(&setting.suites, ca.serving.shown(), clients, &["h2"])
            .context("setting up TLS of the secure gRPC port")?;
        let (drain, connections) = (self.drain(tasks), self.connections.clone());
        tasks.spawn("discovery over TLS", async move {
            serve(
                std::pin::pin!(incoming(listener, Arc::new(config))),
                routes,
                connections,
                &drain,
            )
            .await;
            Ok(())
        });
        Ok(())
    }
}
