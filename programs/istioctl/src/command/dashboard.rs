//! `istioctl dashboard`: a port of a pod on this machine, and a browser that opens it.
//!
//! Nothing is asked of the cluster but port-forwards: whoever may forward ports may look.

use std::net::IpAddr;

use anyhow::Context as _;
use kube::api::ListParams;
use tokio::net::{TcpListener, TcpStream};

use crate::Context;
use crate::cluster::Cluster;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # The page that shows the mesh
  istioctl dashboard
  # Only print its address
  istioctl dashboard --browser=false
  # ControlZ of the control plane
  istioctl dashboard controlz
  # Envoy's administration of one pod
  istioctl dashboard envoy productpage-v1-123.default
  # Prometheus, Grafana and the like that run beside the control plane
  istioctl dashboard prometheus")]
pub(crate) struct Args {
    /// page, controlz, envoy, or what runs beside the control plane: prometheus, grafana, kiali, jaeger, zipkin
    #[arg(default_value = "page", value_name = "WHAT")]
    what: What,
    /// The pod, as NAME or NAME.NAMESPACE; for envoy and controlz
    pod: Option<String>,
    /// Local port; any free one if 0
    #[arg(short, long, default_value_t = 0)]
    port: u16,
    /// Local address
    #[arg(long, default_value = "127.0.0.1")]
    address: IpAddr,
    /// Open a browser; --browser=false only prints the address
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true,
        default_missing_value = "true", action = clap::ArgAction::Set)]
    browser: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    Page,
    Controlz,
    Envoy,
    Prometheus,
    Grafana,
    Kiali,
    Jaeger,
    Zipkin,
}

impl What {
    /// The pod's port, and the page to open.
    fn place(self) -> (u16, &'static str) {
        match self {
            Self::Page => (9876, "/mesh/"),
            Self::Controlz => (9876, "/"),
            Self::Envoy => (15000, "/"),
            Self::Prometheus => (9090, "/"),
            Self::Grafana => (3000, "/"),
            Self::Kiali => (20001, "/kiali"),
            Self::Jaeger => (16686, "/"),
            Self::Zipkin => (9411, "/zipkin"),
        }
    }

    /// The label of what runs beside the control plane.
    fn app(self) -> Option<&'static str> {
        match self {
            Self::Page | Self::Controlz | Self::Envoy => None,
            Self::Prometheus => Some("prometheus"),
            Self::Grafana => Some("grafana"),
            Self::Kiali => Some("kiali"),
            Self::Jaeger => Some("jaeger"),
            Self::Zipkin => Some("zipkin"),
        }
    }
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if args.what == What::Envoy && args.pod.is_none() {
        return Err(Failure::setting("dashboard envoy needs a pod: istioctl dashboard envoy POD"));
    }
    let cluster = Cluster::connect(&context.global).await?;
    let (namespace, pod) = find(args, &cluster).await?;
    let (port, path) = args.what.place();
    let here = (args.address, args.port);
    let listener = TcpListener::bind(here).await;
    let listener = listener.with_context(|| format!("listening on {}:{}", here.0, here.1))?;
    let at = listener.local_addr().context("listening")?;
    let url = format!("http://{at}{path}");
    // Tried once before it is promised.
    drop(cluster.dial(&namespace, &pod, port).await?);
    println!("{url}");
    if args.browser && !open(&url, &context.env) {
        eprintln!("istioctl: no browser is found; open the address by hand, on this machine");
    }
    loop {
        let (near, _) = listener.accept().await.context("taking a connection")?;
        let (cluster, namespace, pod) = (cluster.clone(), namespace.clone(), pod.clone());
        tokio::spawn(async move {
            if let Err(error) = forward(near, &cluster, &namespace, &pod, port).await {
                eprintln!("istioctl: {error:#}");
            }
        });
    }
}

async fn forward(
    mut near: TcpStream,
    cluster: &Cluster,
    namespace: &str,
    pod: &str,
    port: u16,
) -> anyhow::Result<()> {
    let mut far = cluster.dial(namespace, pod, port).await?;
    // How either side ends is no news.
    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    Ok(())
}

/// Namespace and name of the pod to look at.
async fn find(args: &Args, cluster: &Cluster) -> anyhow::Result<(String, String)> {
    let own = &cluster.istio_namespace;
    if let Some(named) = &args.pod {
        let near = if args.what == What::Envoy { &cluster.namespace } else { own };
        let (name, namespace) = named.split_once('.').unwrap_or((named, near));
        return Ok((namespace.to_owned(), name.to_owned()));
    }
    let Some(app) = args.what.app() else {
        let first = cluster.istiods().await?.into_iter().next();
        let first = first.with_context(|| format!("no ready control plane in namespace {own}"))?;
        return Ok((own.clone(), first.pod));
    };
    for label in [format!("app.kubernetes.io/name={app}"), format!("app={app}")] {
        let pods = cluster.pods(own).list(&ListParams::default().labels(&label)).await;
        let pods = pods.with_context(|| format!("listing pods of {app} in {own}"))?;
        let mut names: Vec<String> = pods.items.iter().map(kube::ResourceExt::name_any).collect();
        names.sort();
        if let Some(name) = names.into_iter().next() {
            return Ok((own.clone(), name));
        }
    }
    anyhow::bail!("no pod of {app} in namespace {own}: is it installed?")
}

/// Hands the address to the desktop's browser.
fn open(url: &str, env: &ironsail_sys::env::Env) -> bool {
    let wanted = env.var("BROWSER").into_iter().flat_map(|list| list.split(':'));
    let known = ["xdg-open", "open", "wslview"];
    wanted.chain(known).filter(|program| !program.is_empty()).any(|program| {
        let mut command = ironsail_sys::exec::command(program);
        command.arg(url).stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        command.spawn().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_word_it_is_the_page() {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            args: Args,
        }
        use clap::Parser as _;
        let args = Cli::parse_from(["dashboard", "--browser=false"]).args;
        assert_eq!((args.what.place(), args.browser), ((9876, "/mesh/"), false));
        let args = Cli::parse_from(["dashboard", "envoy", "a.b", "-p", "80"]).args;
        assert_eq!((args.what, args.pod.as_deref(), args.port), (What::Envoy, Some("a.b"), 80));
    }
}
