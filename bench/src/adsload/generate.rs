//! A mesh as YAML: services with endpoints and their pods, one file a service, and changes in it.
//!
//! The names fit the workloads of the simulated proxies: service `svc-N` selects `app: svc-N`. JSON is
//! YAML too, so each document is one line of JSON.

use std::path::{Path, PathBuf};

use anyhow::Context;
use ironsail_gotemplate::{Functions, Numbers, Templates};
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory for the files, one a service
    #[arg(long)]
    out: PathBuf,
    #[arg(long, default_value_t = 1_000)]
    services: usize,
    /// Endpoints of each service
    #[arg(long, default_value_t = 5)]
    endpoints: usize,
    /// Namespaces that the services lie in; give adsload the same number
    #[arg(long, default_value_t = 10)]
    namespaces: usize,
    /// Write only the file of this service
    #[arg(long)]
    only: Option<usize>,
    /// Another number gives the first endpoint another address
    #[arg(long, default_value_t = 0)]
    variation: usize,
    /// Give the services a VirtualService with this timeout in seconds
    #[arg(long)]
    timeout: Option<u32>,
    /// Routes of each VirtualService, told apart by path
    #[arg(long, default_value_t = 1)]
    routes: usize,
    /// ServiceEntry objects in place of Kubernetes ones
    #[arg(long)]
    service_entries: bool,
    /// A Go template of a mesh in place of the built-in one, or a folder of them; it finds the numbers
    /// of services and endpoints as .Services and .Instances
    #[arg(long)]
    template: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    if let Some(template) = &args.template {
        return templates(args, template);
    }
    let services = match args.only {
        Some(one) => one..one + 1,
        None => 0..args.services,
    };
    for service in services {
        write(&args.out, service, &documents(args, service))?;
    }
    if args.only.is_none() {
        let all: Vec<Value> = (0..args.namespaces).map(namespace).collect();
        write_file(&args.out, "namespaces.yaml", &all)?;
    }
    Ok(())
}

/// One file for each template, with objects in the namespaces that the simulated proxies are of.
fn templates(args: &Args, path: &Path) -> anyhow::Result<()> {
    let files = match path.is_dir() {
        false => vec![path.to_path_buf()],
        true => {
            let entries = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
            let files: Result<Vec<_>, _> = entries.map(|e| e.map(|e| e.path())).collect();
            let mut files = files.with_context(|| path.display().to_string())?;
            files.sort();
            files
        }
    };
    let data = json!({"Services": args.services, "Instances": args.endpoints});
    for (index, file) in files.iter().enumerate() {
        let doing = || format!("rendering {}", file.display());
        let text = std::fs::read_to_string(file).with_context(doing)?;
        let mut templates = Templates::new(Functions::sprig());
        templates.parse("mesh", &text).with_context(doing)?;
        let data =
            ironsail_gotemplate::Value::from_json(&data, Numbers::Int).with_context(doing)?;
        let text = templates.render_value("mesh", data).with_context(doing)?;
        let mut documents = ironsail_yaml::documents(&text).with_context(doing)?;
        for document in &mut documents {
            // Each template its own namespace: they use the same names.
            let metadata = &mut document["metadata"];
            if metadata["namespace"].is_null() {
                metadata["namespace"] = format!("load-{}", index % args.namespaces).into();
            }
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        write_file(&args.out, &name, &documents)?;
    }
    let all: Vec<Value> = (0..args.namespaces).map(namespace).collect();
    write_file(&args.out, "namespaces.yaml", &all)
}

fn write(out: &Path, service: usize, documents: &[Value]) -> anyhow::Result<()> {
    write_file(out, &format!("svc-{service}.yaml"), documents)
}

/// Replaces the file as a whole: a watcher never reads half of it.
fn write_file(out: &Path, name: &str, documents: &[Value]) -> anyhow::Result<()> {
    let text: String = documents.iter().map(|d| format!("---\n{d}\n")).collect();
    let (path, part) = (out.join(name), out.join(format!(".{name}.part")));
    std::fs::write(&part, text).with_context(|| format!("writing {}", part.display()))?;
    std::fs::rename(&part, &path).with_context(|| format!("writing {}", path.display()))
}

fn namespace(index: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("load-{index}")}})
}

fn documents(args: &Args, service: usize) -> Vec<Value> {
    let (name, namespace) =
        (format!("svc-{service}"), format!("load-{}", service % args.namespaces));
    let mut addresses: Vec<String> = (0..args.endpoints)
        .map(|i| {
            let n = service * args.endpoints + i;
            format!("10.{}.{}.{}", 1 + n / 65_536, n / 256 % 256, n % 256)
        })
        .collect();
    if let Some(first) = addresses.first_mut().filter(|_| args.variation > 0) {
        *first = format!("10.100.{}.{}", args.variation / 256 % 256, args.variation % 256);
    }
    let vip = format!("172.{}.{}.{}", 16 + service / 65_536, service / 256 % 256, service % 256);
    let host = format!("{name}.{namespace}.svc.cluster.local");
    let mut documents = if args.service_entries {
        vec![service_entry(&name, &namespace, &host, &vip, &addresses)]
    } else {
        kubernetes(&name, &namespace, &vip, &addresses)
    };
    documents.extend(args.timeout.map(|seconds| {
        json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"hosts": [host], "http": routes(args.routes, seconds, &host)}})
    }));
    documents
}

/// All but the last for a path, so that each of them counts.
fn routes(count: usize, seconds: u32, host: &str) -> Vec<Value> {
    let route = |index: usize| {
        let mut route = json!({"timeout": format!("{seconds}s"),
            "route": [{"destination": {"host": host, "port": {"number": 80}}}]});
        if index + 1 < count {
            route["match"] = json!([{"uri": {"prefix": format!("/route-{index}/")}}]);
        }
        route
    };
    (0..count.max(1)).map(route).collect()
}

fn kubernetes(name: &str, namespace: &str, vip: &str, addresses: &[String]) -> Vec<Value> {
    let labels = json!({"app": name, "version": "v1", "security.istio.io/tlsMode": "istio"});
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"clusterIP": vip, "clusterIPs": [vip], "selector": {"app": name}, "type": "ClusterIP",
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]}});
    let endpoints: Vec<Value> = addresses
        .iter()
        .enumerate()
        .map(|(i, ip)| {
            json!({"addresses": [ip], "conditions": {"ready": true, "serving": true},
                "nodeName": format!("node-{}", i % 50), "zone": format!("zone-{}", i % 3),
                "targetRef": {"kind": "Pod", "name": format!("{name}-{i}"), "namespace": namespace}})
        })
        .collect();
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": format!("{name}-x"), "namespace": namespace,
            "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]});
    let pods = addresses.iter().enumerate().map(|(i, ip)| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("{name}-{i}"), "namespace": namespace, "labels": labels},
            "spec": {"serviceAccountName": name, "nodeName": format!("node-{}", i % 50), "containers": []},
            "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                "conditions": [{"type": "Ready", "status": "True"}]}})
    });
    [service, slice].into_iter().chain(pods).collect()
}

fn service_entry(name: &str, ns: &str, host: &str, vip: &str, addresses: &[String]) -> Value {
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|ip| {
            json!({"address": ip, "ports": {"http": 8080}, "serviceAccount": name,
                "labels": {"app": name, "version": "v1", "security.istio.io/tlsMode": "istio"}})
        })
        .collect();
    json!({"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
        "metadata": {"name": name, "namespace": ns},
        "spec": {"hosts": [host], "addresses": [vip], "location": "MESH_INTERNAL",
            "resolution": "STATIC", "endpoints": endpoints,
            "ports": [{"name": "http", "number": 80, "protocol": "HTTP", "targetPort": 8080}]}})
}
