//! Puts the parts together, in the order that they need each other.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ironsail_daemon::metrics::Metrics;
use ironsail_daemon::{signal, task::Supervisor};
use ironsail_identity::client::{self, CaClient, Security, Token};
use ironsail_identity::tls::Shown;
use ironsail_names::port;
use ironsail_sys::clock::Clock;
use ironsail_telemetry::config as telemetry;
use tokio::net::{TcpListener, TcpSocket, UdpSocket, UnixStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::admin::Admin;
use super::config::Config;
use super::envoy::{Launch, Watchdog};
use super::expiry::Expiry;
use super::health::Checker;
use super::names::{Names, search_domains};
use super::node::version;
use super::relay::{Healths, Own, Upstream};
use super::root::RootFile;
use super::secret::{Bundle, FilePair, Folder, Issuer, Keeper};
use super::status::{Application, Probes, Status};
use super::trust::Trust;
use super::{bootstrap, debug, dynamic, envoy, relay, sds, status, wasm};

const RESOLVER: &str = "/etc/resolv.conf";

pub(crate) async fn run(config: Config, log_as_json: bool) -> anyhow::Result<()> {
    info!(target: "agent", "Version {}", version());
    info!(target: "agent", ips = ?config.ips, r#type = config.role, domain = config.domain,
        id = format!("{}.{}", config.name, config.namespace), "Proxy role");
    let signals = signal::stop_on_signals().context("listening for signals")?;
    let clock = Clock::system();
    let trust = Trust::new(config.proof.identity.trust_domain.clone(), clock.clone());
    let agent = Agent { quit: signals, shown: Shown::default(), trust, clock };
    // The helpers end after Envoy, which needs them while it drains.
    let helpers = CancellationToken::new();
    let mut tasks = Supervisor::new(helpers.clone());
    let newest = agent.start_certificates(&config, &mut tasks)?;
    let names = agent.start_names(&config, &mut tasks).await?;
    let health = start_health(&config, &mut tasks)?;
    let tables = names.as_ref().map(|(_, tables)| tables.clone());
    let own = Own::new(tables).with_health(health).with_trust(agent.trust.clone());
    let own = Arc::new(own.with_modules(wasm::cache(&config.environment, &config.config_folder)));
    agent.start_relay(&config, &own, &mut tasks)?;
    let metrics = Metrics::with_process();
    metrics.collect(Expiry { newest: newest.clone(), clock: agent.clock.clone() });
    agent.start_status(&config, (names.map(|(names, _)| names), metrics), &own, &mut tasks).await?;
    let asks = config.run_proxy && config.bootstrap.ask && config.bootstrap.is_own();
    let upstream = asks.then(|| agent.upstream(&config, &mut tasks)).transpose()?;
    let result = tokio::select! {
        result = agent.run_proxy(&config, upstream, log_as_json) => result,
        result = tasks.run() => result.context("a part of the agent ended"),
    };
    helpers.cancel();
    drop(newest);
    info!(target: "agent", "the agent ends");
    result
}

struct Agent {
    /// Cancelled by signals and by whoever asks the agent to quit.
    quit: CancellationToken,
    /// The certificate that this side shows to the control plane, once there is one.
    shown: Shown,
    trust: Trust,
    clock: Clock,
}

impl Agent {
    fn security(
        &self,
        address: &str,
        root: Option<&Path>,
        tasks: &mut Supervisor,
    ) -> anyhow::Result<(Security, Option<RootFile>)> {
        // The port for plaintext has no TLS to check.
        if address.ends_with(":15010") {
            return Ok((Security::Plaintext, None));
        }
        let path =
            root.context("no root certificates to check the control plane by: set XDS_ROOT_CA")?;
        let root = RootFile::open(path, self.trust.clone())?;
        let (followed, stop) = (root.clone(), tasks.stop_token());
        tasks.spawn("following the roots of the control plane", async move {
            let _ = stop.run_until_cancelled(followed.follow()).await;
            Ok(())
        });
        let (trusted, shown) = (root.trusted().clone(), self.shown.clone());
        Ok((Security::Tls { server_name: None, trusted, shown }, Some(root)))
    }

    /// Keeps a certificate and serves it, unless somebody else already serves one.
    fn start_certificates(
        &self,
        config: &Config,
        tasks: &mut Supervisor,
    ) -> anyhow::Result<watch::Receiver<Option<Arc<Bundle>>>> {
        let (newest, follow) = watch::channel(None);
        if std::os::unix::net::UnixStream::connect(&config.sds_socket).is_ok() {
            info!(target: "sds", "{} is served by somebody else", config.sds_socket.display());
            return Ok(follow);
        }
        self.show_provisioned(config)?;
        let issuer = match files(config) {
            Some(folder) => Issuer::Files(folder),
            None => {
                let (security, root) =
                    self.security(&config.proof.ca, config.proof.ca_root.as_deref(), tasks)?;
                let token = match config.proof.provisioned.is_some() && !config.proof.token.exists()
                {
                    true => Token::None,
                    false => Token::File(config.proof.token.clone()),
                };
                let mut ca = client::Config::new(&config.proof.ca, security, token);
                ca.cluster.clone_from(&config.proof.cluster_id);
                ca.signer.clone_from(&config.proof.signer);
                let client = CaClient::new(ca, self.clock.clone()).context("the CA's address")?;
                Issuer::Ca {
                    client,
                    identity: config.proof.identity.clone(),
                    kind: config.proof.key_kind,
                    lifetime: config.proof.lifetime,
                    root,
                }
            }
        };
        let keeper = Keeper {
            issuer,
            policy: config.proof.renewal,
            clock: self.clock.clone(),
            output: config.proof.output_certs.clone(),
            trust: self.trust.clone(),
        };
        tasks.spawn("renewing the certificate", keeper.run(newest, tasks.stop_token()));
        let (socket, stop) = (config.sds_socket.clone(), tasks.stop_token());
        let (served, crl, trust) = (follow.clone(), config.proof.crl.clone(), self.trust.clone());
        tasks.spawn("serving secrets", async move {
            sds::serve(&socket, served, crl, trust, stop).await
        });
        self.show(follow.clone(), tasks);
        Ok(follow)
    }

    /// On a machine without a token, a certificate from elsewhere says who asks for the first one.
    fn show_provisioned(&self, config: &Config) -> anyhow::Result<()> {
        let Some(folder) = &config.proof.provisioned else { return Ok(()) };
        let pair = FilePair { chain: folder.join("cert-chain.pem"), key: folder.join("key.pem") };
        self.shown.set(pair.read().context("PROV_CERT")?);
        Ok(())
    }

    /// The control plane may know this side by its certificate as well as by its token.
    fn show(&self, mut newest: watch::Receiver<Option<Arc<Bundle>>>, tasks: &mut Supervisor) {
        let (shown, stop) = (self.shown.clone(), tasks.stop_token());
        tasks.spawn("showing the certificate", async move {
            let follow = async {
                while newest.changed().await.is_ok() {
                    if let Some(bundle) = newest.borrow_and_update().as_ref() {
                        shown.set(bundle.credential.clone());
                    }
                }
                std::future::pending::<()>().await;
            };
            let _ = stop.run_until_cancelled(follow).await;
            Ok(())
        });
    }

    /// DNS, if it is captured.
    async fn start_names(
        &self,
        config: &Config,
        tasks: &mut Supervisor,
    ) -> anyhow::Result<Option<(Names, watch::Sender<NameTables>)>> {
        let Some(address) = &config.dns else { return Ok(None) };
        let resolver = std::fs::read_to_string(RESOLVER).unwrap_or_default();
        let forwarder = ironsail_dns::Forwarder::new(ironsail_dns::upstreams(&resolver));
        let names = Names::default();
        let tables = watch::Sender::new(None);
        let server = ironsail_dns::Server::new(Arc::new(names.clone()), Some(forwarder));
        for address in dns_addresses(address).await? {
            let what = || format!("listening for DNS on {address}");
            let udp = match UdpSocket::bind(address).await {
                Ok(udp) => udp,
                // A machine without IPv6 still has the other address.
                Err(error) if address.is_ipv6() => {
                    warn!(target: "dns", "{}: {error}", what());
                    continue;
                }
                Err(error) => return Err(error).with_context(what),
            };
            let tcp = TcpListener::bind(address).await.with_context(what)?;
            let (server, stop) = (server.clone(), tasks.stop_token());
            tasks.spawn("serving DNS", async move {
                let both = async { tokio::join!(server.serve_udp(udp), server.serve_tcp(tcp)) };
                let _ = stop.run_until_cancelled(both).await;
                Ok(())
            });
        }
        let (follower, followed, stop) = (names.clone(), tables.clone(), tasks.stop_token());
        let (domain, search) = (config.domain.clone(), search_domains(&resolver));
        tasks.spawn("following the name table", async move {
            let _ = stop.run_until_cancelled(follower.follow(followed, domain, search)).await;
            Ok(())
        });
        Ok(Some((names, tables)))
    }

    /// The way to the control plane.
    fn upstream(&self, config: &Config, tasks: &mut Supervisor) -> anyhow::Result<Upstream> {
        let address = &config.discovery;
        let (security, root) = self.security(address, config.proof.xds_root.as_deref(), tasks)?;
        Upstream::new(address, security, config.proof.token.clone(), root)
    }

    fn start_relay(
        &self,
        config: &Config,
        own: &Arc<Own>,
        tasks: &mut Supervisor,
    ) -> anyhow::Result<()> {
        let upstream = self.upstream(config, tasks)?;
        if bootstrap::module_folder().is_some() {
            let file = config.config_folder.join(telemetry::TABLE);
            std::fs::create_dir_all(&config.config_folder)
                .with_context(|| format!("making {}", config.config_folder.display()))?;
            std::fs::write(&file, "").with_context(|| format!("writing {}", file.display()))?;
            let (addresses, stop) = (own.addresses().clone(), tasks.stop_token());
            tasks.spawn("keeping the table of addresses", async move {
                addresses.keep(file, stop).await;
                Ok(())
            });
        }
        let (tidied, stop) = (own.clone(), tasks.stop_token());
        tasks.spawn("giving memory back", async move {
            let _ = stop.run_until_cancelled(tidied.tidy()).await;
            Ok(())
        });
        let (socket, own) = (config.config_folder.join("XDS"), own.clone());
        let stop = tasks.stop_token();
        tasks.spawn("relaying discovery", async move {
            relay::serve(&socket, upstream, own, stop).await
        });
        Ok(())
    }

    async fn start_status(
        &self,
        config: &Config,
        (names, metrics): (Option<Names>, Metrics),
        own: &Arc<Own>,
        tasks: &mut Supervisor,
    ) -> anyhow::Result<()> {
        let loopback = loopback(config);
        let agent_port = port_of(config.proxy.status_port, port::AGENT_STATUS);
        let probes = match &config.probes {
            None => Probes::default(),
            Some(text) => {
                let host = config.ips.first().copied().filter(|_| config.probes_by_address());
                Probes::parse(text, host).context("ISTIO_KUBE_APP_PROBERS")?
            }
        };
        let application = match &config.application_metrics {
            None => None,
            Some(text) => {
                Application::parse(text, agent_port).context("ISTIO_PROMETHEUS_ANNOTATIONS")?
            }
        };
        let status = Status {
            admin: admin(config),
            proxy_metrics: Admin::new((loopback, port::PROXY_METRICS).into()),
            application,
            metrics,
            probes,
            names,
            quit: self.quit.clone(),
            has_proxy: config.run_proxy,
        };
        // A socket for IPv6 takes IPv4 as well.
        let any = match config.ips.iter().any(IpAddr::is_ipv6) {
            true => IpAddr::from([0_u16; 8]),
            false => IpAddr::from([0_u8; 4]),
        };
        let listener = listen((any, agent_port).into())?;
        let stop = tasks.stop_token();
        tasks.spawn("serving the agent's status", status::serve(listener, status, stop));
        let listener = listen((loopback, port::AGENT_DEBUG).into())?;
        let (own, stop) = (own.clone(), tasks.stop_token());
        tasks.spawn("serving debug data", debug::serve(listener, own, stop));
        Ok(())
    }

    /// `upstream` is to be asked for changes of the bootstrap, if it is.
    async fn run_proxy(
        &self,
        config: &Config,
        upstream: Option<Upstream>,
        log_as_json: bool,
    ) -> anyhow::Result<()> {
        let written = bootstrap::write(config, log_as_json)?;
        if let Some(upstream) = upstream {
            let node = bootstrap::node(config);
            let asked = dynamic::write(&upstream, &node, &written.file);
            match self.quit.run_until_cancelled(asked).await {
                None => return Ok(()),
                Some(done) => done?,
            }
        }
        if !config.run_proxy {
            self.quit.cancelled().await;
            return Ok(());
        }
        let launch = Launch {
            program: config.proxy.binary_path.clone().into(),
            config: written.file,
            over: written.over,
            drain: config.proxy.drain_duration.unwrap_or(Duration::from_secs(45)),
            log_level: config.log_level.clone(),
            component_log_level: config.component_log_level.clone(),
            concurrency: config.concurrency,
            ipv6_only: config.is_ipv6_first(),
            flush_interval: config.proxy.file_flush_interval.unwrap_or(Duration::from_secs(1)),
            flush_min_size_kb: config.proxy.file_flush_min_size_kb,
            skip_deprecated: true,
            modules: bootstrap::module_folder(),
        };
        wait_for(&config.config_folder.join("XDS")).await;
        wait_for(&config.sds_socket).await;
        let (admin, drain) = (admin(config), config.drain.clone());
        let watchdog = Watchdog::new(admin.clone(), config.hang_after);
        let stop = self.quit.clone();
        envoy::run(&launch, &watchdog, stop, || async move { drain.run(&admin).await }).await
    }
}

type NameTables = Option<Arc<ironsail_proto::istio::networking::nds::v1::NameTable>>;

fn loopback(config: &Config) -> IpAddr {
    match config.is_ipv6_first() {
        true => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        false => IpAddr::from([127, 0, 0, 1]),
    }
}

/// `localhost` is both loopback addresses, whatever the machine's file of hosts says: the packet rules
/// send lookups of each family to its own.
async fn dns_addresses(text: &str) -> anyhow::Result<Vec<SocketAddr>> {
    let what = || format!("DNS_PROXY_ADDR {text}");
    if let Some(port) = text.strip_prefix("localhost:") {
        let port: u16 = port.parse().with_context(what)?;
        let loopback = IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]);
        return Ok(vec![([127, 0, 0, 1], port).into(), (loopback, port).into()]);
    }
    Ok(tokio::net::lookup_host(text).await.with_context(what)?.collect())
}

fn admin(config: &Config) -> Admin {
    let port = port_of(config.proxy.proxy_admin_port, port::ENVOY_ADMIN);
    Admin::new((loopback(config), port).into())
}

/// The files that somebody else keeps, if the workload's certificate comes from there.
fn files(config: &Config) -> Option<Folder> {
    let mut folders = config.proof.credentials.iter().map(|folder| Folder::standard(folder));
    let last = folders.clone().next_back();
    folders.find(Folder::exists).or(last.filter(|_| config.proof.files_only))
}

/// Looks after the application, if the proxy's configuration says how.
fn start_health(config: &Config, tasks: &mut Supervisor) -> anyhow::Result<Option<Healths>> {
    let Some(probe) = &config.proxy.readiness_probe else { return Ok(None) };
    let proxy = config.run_proxy.then(|| admin(config));
    let Some(checker) = Checker::new(probe, proxy, &config.ips)? else { return Ok(None) };
    let (health, follow) = watch::channel(None);
    tasks.spawn("checking the application's health", checker.run(health, tasks.stop_token()));
    Ok(Some(follow))
}

fn port_of(number: i32, otherwise: u16) -> u16 {
    u16::try_from(number).unwrap_or(otherwise)
}

fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let what = || format!("listening on {address}");
    let socket = if address.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() };
    let socket = socket.with_context(what)?;
    socket.set_reuseaddr(true).with_context(what)?;
    socket.bind(address).with_context(what)?;
    socket.listen(1024).with_context(what)
}

/// Envoy would log failures until the agent's sockets are there.
async fn wait_for(socket: &Path) {
    while UnixStream::connect(socket).await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
