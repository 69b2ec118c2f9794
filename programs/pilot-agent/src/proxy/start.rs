//! Puts the parts together, in the order that they need each other.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ironsail_api::wire::Wire;
use ironsail_bootstrap::{Family, Input, Node, Settings};
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
use super::envoy::Launch;
use super::names::{Names, search_domains};
use super::node::{Facts, version};
use super::relay::{Own, Upstream};
use super::root::RootFile;
use super::secret::{Bundle, Folder, Issuer, Keeper};
use super::status::{Application, Probes, Status};
use super::wasm;
use super::{debug, envoy, relay, sds, status};

const RESOLVER: &str = "/etc/resolv.conf";

pub(crate) async fn run(config: Config, log_as_json: bool) -> anyhow::Result<()> {
    info!(target: "agent", "Version {}", version());
    info!(target: "agent", ips = ?config.ips, r#type = config.role, domain = config.domain,
        id = format!("{}.{}", config.name, config.namespace), "Proxy role");
    let signals = signal::stop_on_signals().context("listening for signals")?;
    let agent = Agent { quit: signals, shown: Shown::default(), clock: Clock::system() };
    // The helpers end after Envoy, which needs them while it drains.
    let helpers = CancellationToken::new();
    let mut tasks = Supervisor::new(helpers.clone());
    let newest = agent.start_certificates(&config, &mut tasks)?;
    let names = agent.start_names(&config, &mut tasks).await?;
    let own = Own::new(names.as_ref().map(|(_, tables)| tables.clone()));
    let own = Arc::new(own.with_modules(wasm::cache(&config.environment, &config.config_folder)));
    agent.start_relay(&config, &own, &mut tasks)?;
    agent.start_status(&config, names.map(|(names, _)| names), &own, &mut tasks).await?;
    let result = tokio::select! {
        result = agent.run_proxy(&config, log_as_json) => result,
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
    clock: Clock,
}

fn security(
    address: &str,
    root: Option<&Path>,
    shown: &Shown,
) -> anyhow::Result<(Security, Option<RootFile>)> {
    // The port for plaintext has no TLS to check.
    if address.ends_with(":15010") {
        return Ok((Security::Plaintext, None));
    }
    let path =
        root.context("no root certificates to check the control plane by: set XDS_ROOT_CA")?;
    let root = RootFile::open(path)?;
    let trusted = root.trusted().clone();
    Ok((Security::Tls { server_name: None, trusted, shown: shown.clone() }, Some(root)))
}

impl Agent {
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
        let folder = Folder::standard(&config.proof.credentials);
        let issuer = match config.proof.files_only || folder.exists() {
            true => Issuer::Files(folder),
            false => {
                let (security, root) =
                    security(&config.proof.ca, config.proof.ca_root.as_deref(), &self.shown)?;
                let token = Token::File(config.proof.token.clone());
                let mut ca = client::Config::new(&config.proof.ca, security, token);
                ca.cluster.clone_from(&config.proof.cluster_id);
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
        };
        tasks.spawn("renewing the certificate", keeper.run(newest, tasks.stop_token()));
        let (socket, stop) = (config.sds_socket.clone(), tasks.stop_token());
        let served = follow.clone();
        tasks.spawn("serving secrets", async move { sds::serve(&socket, served, stop).await });
        self.show(follow.clone(), tasks);
        Ok(follow)
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
        let (tables, follow) = watch::channel(None);
        let server = ironsail_dns::Server::new(Arc::new(names.clone()), Some(forwarder));
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host(address.as_str())
            .await
            .with_context(|| format!("DNS_PROXY_ADDR {address}"))?
            .collect();
        for address in addresses {
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
        let (follower, stop) = (names.clone(), tasks.stop_token());
        let (domain, search) = (config.domain.clone(), search_domains(&resolver));
        tasks.spawn("following the name table", async move {
            let _ = stop.run_until_cancelled(follower.follow(follow, domain, search)).await;
            Ok(())
        });
        Ok(Some((names, tables)))
    }

    fn start_relay(
        &self,
        config: &Config,
        own: &Arc<Own>,
        tasks: &mut Supervisor,
    ) -> anyhow::Result<()> {
        let address = &config.discovery;
        let (security, root) = security(address, config.proof.xds_root.as_deref(), &self.shown)?;
        let upstream = Upstream::new(address, security, config.proof.token.clone(), root)?;
        if module_folder().is_some() {
            let file = config.config_folder.join(telemetry::TABLE);
            std::fs::create_dir_all(&config.config_folder)
                .with_context(|| format!("making {}", config.config_folder.display()))?;
            put(&file, "")?;
            let (addresses, stop) = (own.addresses().clone(), tasks.stop_token());
            tasks.spawn("keeping the table of addresses", async move {
                addresses.keep(file, stop).await;
                Ok(())
            });
        }
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
        names: Option<Names>,
        own: &Arc<Own>,
        tasks: &mut Supervisor,
    ) -> anyhow::Result<()> {
        let loopback = loopback(config);
        let agent_port = port_of(config.proxy.status_port, port::AGENT_STATUS);
        let admin_port = port_of(config.proxy.proxy_admin_port, port::ENVOY_ADMIN);
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
            admin: Admin::new((loopback, admin_port).into()),
            proxy_metrics: Admin::new((loopback, port::PROXY_METRICS).into()),
            application,
            metrics: Metrics::with_process(),
            probes,
            names,
            quit: self.quit.clone(),
            has_proxy: config.run_proxy,
        };
        let any: IpAddr = if config.ipv6_only() || config.dual_stack() {
            IpAddr::from([0_u16; 8])
        } else {
            IpAddr::from([0_u8; 4])
        };
        let listener = listen((any, agent_port).into())?;
        let stop = tasks.stop_token();
        tasks.spawn("serving the agent's status", status::serve(listener, status, stop));
        let listener = listen((loopback, port::AGENT_DEBUG).into())?;
        let (own, stop) = (own.clone(), tasks.stop_token());
        tasks.spawn("serving debug data", debug::serve(listener, own, stop));
        Ok(())
    }

    async fn run_proxy(&self, config: &Config, log_as_json: bool) -> anyhow::Result<()> {
        write_bootstrap(config, log_as_json)?;
        if !config.run_proxy {
            self.quit.cancelled().await;
            return Ok(());
        }
        let launch = Launch {
            program: config.proxy.binary_path.clone().into(),
            config: clean(&config.config_folder.join("envoy-rev.json")),
            drain: config.proxy.drain_duration.unwrap_or(Duration::from_secs(45)),
            log_level: config.log_level.clone(),
            component_log_level: config.component_log_level.clone(),
            concurrency: config.concurrency,
            ipv6_only: config.ipv6_only(),
            flush_interval: config.proxy.file_flush_interval.unwrap_or(Duration::from_secs(1)),
            flush_min_size_kb: config.proxy.file_flush_min_size_kb,
            skip_deprecated: true,
            modules: module_folder(),
        };
        wait_for(&config.config_folder.join("XDS")).await;
        wait_for(&config.sds_socket).await;
        let admin_port = port_of(config.proxy.proxy_admin_port, port::ENVOY_ADMIN);
        let admin = Admin::new((loopback(config), admin_port).into());
        let drain = config.drain.clone();
        envoy::run(&launch, self.quit.clone(), || async move { drain.run(&admin).await }).await
    }
}

type NameTables = Option<Arc<ironsail_proto::istio::networking::nds::v1::NameTable>>;

fn loopback(config: &Config) -> IpAddr {
    match config.ipv6_only() {
        true => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        false => IpAddr::from([127, 0, 0, 1]),
    }
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

/// `./etc/x` as process lists show it.
fn clean(path: &Path) -> std::path::PathBuf {
    path.strip_prefix(".").unwrap_or(path).to_owned()
}

fn node(config: &Config) -> Node {
    let host =
        config.discovery.rsplit_once(':').map_or(config.discovery.as_str(), |(host, _)| host);
    let mut node = Facts {
        role: config.role,
        ips: &config.ips,
        name: &config.name,
        namespace: &config.namespace,
        service_account: &config.service_account,
        domain: &config.domain,
        labels: &config.labels,
        annotations: &config.annotations,
        config: &config.proxy,
        config_json: config.proxy.write(),
        environment: &config.environment,
        prometheus_port: port::PROXY_METRICS,
        ready_port: port::HEALTH,
        outlier_log: &config.outlier_log,
        pilot_names: &[host.to_owned()],
    }
    .node();
    if module_folder().is_some() {
        node.metadata.insert(telemetry::NODE_KEY.to_owned(), telemetry::NODE_VALUE.into());
    }
    node
}

/// Where the module lies that Envoy counts the mesh's metrics with: beside this program.
fn module_folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?;
    folder.join(format!("lib{}.so", telemetry::MODULE)).exists().then(|| folder.to_owned())
}

fn write_bootstrap(config: &Config, log_as_json: bool) -> anyhow::Result<()> {
    let folder = &config.config_folder;
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let node = node(config);
    let socket = folder.join("XDS");
    let grpc = ironsail_bootstrap::grpc(
        &node,
        &absolute(&socket),
        config.proof.output_certs.as_ref().map(|path| absolute(path)).as_deref(),
    );
    put(&folder.join("grpc-bootstrap.json"), &format!("{grpc:#}\n"))?;
    let custom = match (&config.template, config.proxy.custom_config_file.as_str()) {
        (Some(path), _) => Some(path.clone()),
        (None, "") => None,
        (None, path) => Some(path.into()),
    };
    if let Some(path) = custom {
        let text = std::fs::read_to_string(&path);
        let text = text.with_context(|| format!("reading the bootstrap {}", path.display()))?;
        anyhow::ensure!(
            !text.contains("{{"),
            "{}: templates of the bootstrap are not supported yet; give the file itself",
            path.display()
        );
        return put(&folder.join("envoy-rev.json"), &text);
    }
    let limit = config.environment.get("ISTIO_META_GLOBAL_DOWNSTREAM_MAX_CONNECTIONS");
    let family = match (config.ipv6_only(), config.dual_stack()) {
        (true, _) => Family::V6,
        (_, true) => Family::Both,
        _ => Family::V4,
    };
    let (settings, faults) = Settings::new(Input {
        config: &config.proxy,
        node,
        annotations: &config.annotations,
        family,
        xds_socket: &socket.display().to_string(),
        sds_socket: &config.sds_socket.display().to_string(),
        outlier_log: &config.outlier_log,
        log_as_json,
        prometheus_port: port::PROXY_METRICS,
        ready_port: port::HEALTH,
        max_connections: limit.map(String::as_str),
    });
    faults.iter().for_each(|fault| warn!(target: "agent", "{fault}"));
    put(&folder.join("envoy-rev.json"), &format!("{:#}\n", ironsail_bootstrap::envoy(&settings)))
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn put(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
