//! `pilot-discovery discovery`: every part is started here, and the program ends when one of them does.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::middleware;
use ironsail_daemon::{log, metrics::Metrics, signal, task::Supervisor};
use ironsail_discovery::{DebounceLimits, Engine, Inputs, KeeperSettings, Settings};
use ironsail_inject::KubeVersion;
use ironsail_model::Store;
use ironsail_source::mesh::Mesh;
use ironsail_sys::clock::Clock;
use ironsail_sys::env::Env;
use tokio::sync::watch;

use crate::args::Discovery;
use crate::env::Variables;
use crate::setting::Setting;
use crate::{
    Failure, address, authority, console, control, grpc, http, identity, keys, ops, serve, source,
    trust, webhook,
};

/// New streams a second for each processor, if nobody says otherwise. A stream costs little, because
/// proxies of a workload share what they get.
const STREAMS_PER_PROCESSOR: usize = 500;

/// Proxies for each processor that get their first configuration at the same time; the others wait.
const NEWCOMERS_PER_PROCESSOR: usize = 50;

/// Parts of the log that have a level of their own.
const SCOPES: [&str; 13] = [
    "ads",
    "ca",
    "console",
    "controllers",
    "discovery",
    "identity",
    "inject",
    "model",
    "source",
    "status",
    "translate",
    "validation",
    "xds",
];

pub(crate) fn run(args: &Discovery) -> Result<(), Failure> {
    let variables = Variables::read(&Env::of_process()).map_err(Failure::Settings)?;
    let setting = Setting::of(args, variables).map_err(Failure::Settings)?;
    let config = log::Config { levels: args.log.output_level.clone(), json: args.log.as_json };
    let levels = log::start(&config)
        .map_err(|error| Failure::Settings(vec![format!("--log_output_level: {error}")]))?;
    ironsail_sys::process::raise_file_limit().context("raising the limit of open files")?;
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    runtime.block_on(start(args, setting, levels))?;
    // What still blocks is not waited for.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

async fn start(args: &Discovery, setting: Setting, levels: log::Levels) -> anyhow::Result<()> {
    let stop = signal::stop_on_signals().context("listening to signals")?;
    let mut tasks = Supervisor::new(stop.clone());
    let client = source::client(&setting).await?;
    let (secrets, wanted) = watch::channel(Arc::default());
    let sources = source::start(args, &setting, client.clone(), wanted, &mut tasks).await;
    let (mesh, board) = (sources.mesh.clone(), sources.board.clone());
    let engine = Engine::start(
        Store::new(model_settings(&setting)),
        engine_settings(&setting, sources.expected),
        Inputs { events: sources.events, mesh: sources.mesh, board: sources.board },
        Clock::system(),
    );
    if let Some(client) = &client {
        engine.set_secret_access(Box::new(identity::Reviews::new(client.clone())));
    }
    engine.set_secret_namespaces(secrets);
    keys::start(&setting, engine.clone(), &mut tasks);
    let version = kubernetes_version(client.as_ref()).await;
    let ca = authority::start(&setting, client.clone(), mesh.clone(), &mut tasks).await?;
    let trust = follow_trust(&setting, &engine, &ca, mesh.clone(), &mut tasks);
    if let Some(client) = client {
        let (engine, roots) = (engine.clone(), ca.roots.clone());
        let watched = control::Watched { client, engine, board, roots, trust, mesh };
        control::start(&setting, &watched, &mut tasks);
    }
    let injection = Arc::new(webhook::Injection::new(&setting, version));
    let counts = Arc::new(webhook::Counts::default());
    if setting.variables.inject {
        webhook::follow(injection.clone(), engine.clone(), &mut tasks);
    }
    if let Some(listener) = address::listen("httpsAddr", &args.listen.https).await? {
        let (engine, counts) = (engine.clone(), counts.clone());
        let reviewers = webhook::Reviewers { injection: injection.clone(), engine, counts };
        webhook::serve(listener, (&ca, &setting), reviewers, &mut tasks)?;
    }
    let reviews = ops::Reviews { counts, injection };
    let watched = watched(args, &setting, &engine, &ca, reviews);
    listen(args, &setting, &watched, &ca, &mut tasks).await?;
    controlz(args, &setting, &watched, levels, &mut tasks).await?;
    tasks.run().await
}

fn follow_trust(
    setting: &Setting,
    engine: &Arc<Engine>,
    ca: &authority::Started,
    mesh: watch::Receiver<Arc<Mesh>>,
    tasks: &mut Supervisor,
) -> trust::Trust {
    let parts = trust::Parts {
        engine: engine.clone(),
        // Somebody else who signs has roots that are not all known here.
        authority: Some(ca.authority.clone())
            .filter(|_| setting.variables.ca_server && ca.registration.is_none()),
        own: ca.roots.clone(),
        domains: ca.domains.clone(),
        mesh,
        endpoints: setting.variables.bundle_endpoints.clone(),
        trusted: ca.trusted.clone(),
    };
    let fetch = trust::Settings { trust: keys::web_trust(), clock: Clock::system() };
    trust::start(parts, fetch, tasks)
}

/// Which sidecars the nodes can run depends on it; unknown if nobody can be asked.
async fn kubernetes_version(client: Option<&kube::Client>) -> Option<KubeVersion> {
    let info = client?.apiserver_version().await;
    match info {
        Ok(info) => info.git_version.parse().ok(),
        Err(error) => {
            tracing::warn!(%error, "asking for the version of Kubernetes");
            None
        }
    }
}

async fn listen(
    args: &Discovery,
    setting: &Setting,
    watched: &ops::Watched,
    ca: &authority::Started,
    tasks: &mut Supervisor,
) -> anyhow::Result<()> {
    let engine = &watched.engine;
    let ports = grpc::Ports {
        engine: engine.clone(),
        connections: grpc::connections(&args.keepalive),
        spread: args.shutdown,
    };
    if let Some(listener) = address::listen("grpcAddr", &args.listen.grpc).await? {
        ports.plaintext(listener, tasks);
    }
    if let Some(listener) = address::listen("secureGRPCAddr", &args.listen.secure_grpc).await? {
        ports.secure(listener, ca, setting, tasks)?;
    }
    let asked = args.listen.http.as_deref();
    if let Some(listener) = address::listen("httpAddr", asked.unwrap_or(":8080")).await? {
        let pages = match asked {
            Some(_) => ops::debug(watched),
            None => ops::debug(watched).layer(middleware::from_fn(ops::only_from_here)),
        };
        let ready = http::ready(engine.clone());
        let served = serve::http(listener, ready.merge(pages), tasks.stop_token());
        tasks.spawn("HTTP", served);
    }
    if let Some(listener) = address::listen("monitoringAddr", &args.listen.monitoring).await? {
        let served = serve::http(
            listener,
            http::about().merge(ops::metrics(watched)).merge(ops::debug(watched)),
            tasks.stop_token(),
        );
        tasks.spawn("monitoring", served);
    }
    Ok(())
}

fn watched(
    args: &Discovery,
    setting: &Setting,
    engine: &Arc<Engine>,
    ca: &authority::Started,
    reviews: ops::Reviews,
) -> ops::Watched {
    let watched = ops::Watched {
        engine: engine.clone(),
        authority: ca.authority.clone(),
        authenticator: ca.authenticator.clone(),
        metrics: Metrics::with_process(),
        root_namespace: setting.mesh_namespace.clone(),
        open_debug: !setting.variables.debug_auth,
        profile: args.profile,
        reviews,
    };
    ops::register(&watched);
    ops::answer_over_discovery(&watched);
    watched
}

/// The page that shows and changes the program; it can end it, so it is for this machine only.
async fn controlz(
    args: &Discovery,
    setting: &Setting,
    watched: &ops::Watched,
    levels: log::Levels,
    tasks: &mut Supervisor,
) -> anyhow::Result<()> {
    let at = format!("{}:{}", args.listen.ctrlz_address, args.listen.ctrlz_port);
    let Some(listener) = address::listen("ctrlz_port", &at).await? else { return Ok(()) };
    levels.declare(&SCOPES);
    let env = Env::of_process();
    let program = ironsail_controlz::Program {
        name: "pilot-discovery",
        version: crate::version::NUMBER.to_owned(),
        levels,
        metrics: watched.metrics.clone(),
        environment: env.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        arguments: std::env::args().collect(),
        stop: tasks.stop_token(),
        more: &[("/mesh/", "Mesh", "a map of the traffic, workloads, services, resources, pushes")],
    };
    let mesh = Arc::new(console::Mesh {
        engine: Arc::downgrade(&watched.engine),
        version: crate::version::NUMBER.to_owned(),
        revision: setting.variables.revision.clone(),
    });
    let prometheus = setting.variables.prometheus.clone();
    let traffic = ironsail_console::Traffic::new(Some(prometheus).filter(|url| !url.is_empty()));
    let router = ironsail_controlz::router(program)
        .merge(ironsail_console::router(mesh.clone(), traffic.clone()));
    let stop = tasks.stop_token();
    tasks.spawn("collecting traffic", async move {
        traffic.run(mesh, stop).await;
        Ok(())
    });
    let served = serve::http(listener, router, tasks.stop_token());
    tasks.spawn("ControlZ", served);
    Ok(())
}

fn model_settings(setting: &Setting) -> ironsail_model::Settings {
    ironsail_model::Settings {
        cluster: setting.cluster.clone(),
        domain: setting.domain.clone(),
        root_namespace: setting.mesh_namespace.clone(),
        revision: setting.variables.revision.clone(),
        key_fetch: setting.variables.key_fetch,
        several_authorizers: setting.variables.several_authorizers,
        ..ironsail_model::Settings::default()
    }
}

fn engine_settings(
    setting: &Setting,
    expected: std::collections::BTreeSet<(ironsail_api::ClusterId, ironsail_api::Kind)>,
) -> Settings {
    let variables = &setting.variables;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let default_rate = u32::try_from(STREAMS_PER_PROCESSOR * processors).unwrap_or(u32::MAX);
    let rate = variables.stream_rate;
    Settings {
        keeper: KeeperSettings {
            debounce: DebounceLimits {
                after: variables.debounce_after,
                max: variables.debounce_max,
            },
            debounce_endpoints: variables.debounce_endpoints,
            expected,
        },
        // A quarter of the machine is left for the streams.
        workers: if variables.workers == 0 { processors * 3 / 4 } else { variables.workers },
        stream_rate: if rate == 0.0 { default_rate.into() } else { rate },
        patience: Duration::from_secs(5),
        newcomers: NEWCOMERS_PER_PROCESSOR * processors,
        cluster: setting.cluster.clone(),
        root_namespace: setting.namespace.clone(),
        open_debug: !variables.debug_auth,
    }
}
