//! `istioctl version`: this program's, and those of control plane and proxies where they are reachable.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::table::Table;
use crate::Context;

/// What this program is.
const NUMBER: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Everything that can be found out
  istioctl version
  # Of this program only
  istioctl version --remote=false
  # For a program
  istioctl version -o json")]
pub(crate) struct Args {
    /// Numbers only; --short=false for all that is known of each
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_value_t = true,
        default_missing_value = "true", action = clap::ArgAction::Set)]
    short: bool,
    /// Ask the control plane too
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true,
        default_missing_value = "true", action = clap::ArgAction::Set)]
    remote: bool,
    /// One of json, yaml
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

/// What is known of a build.
#[derive(Clone, Debug, Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct Build {
    version: String,
    revision: String,
    golang_version: String,
    status: String,
    tag: String,
}

impl Build {
    fn of(number: &str) -> Self {
        Self {
            version: number.to_owned(),
            revision: String::new(),
            golang_version: String::new(),
            status: "Clean".to_owned(),
            tag: number.to_owned(),
        }
    }

    fn long(&self) -> String {
        let Self { version, revision, golang_version, status, tag } = self;
        format!(
            "version.BuildInfo{{Version:{version:?}, GitRevision:{revision:?}, \
             GolangVersion:{golang_version:?}, BuildStatus:{status:?}, GitTag:{tag:?}}}"
        )
    }
}

#[derive(Debug, Serialize)]
struct Component {
    #[serde(rename = "Component")]
    name: String,
    #[serde(rename = "Revision")]
    revision: String,
    #[serde(rename = "Info")]
    info: Build,
}

#[derive(Debug, Serialize)]
struct Proxy {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "IstioVersion")]
    version: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client_version: Build,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mesh_version: Vec<Component>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    data_plane_version: Vec<Proxy>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let mut versions = Versions {
        client_version: Build::of(NUMBER),
        mesh_version: Vec::new(),
        data_plane_version: Vec::new(),
    };
    if args.remote {
        // Without a mesh the client's version is still an answer.
        if let Err(error) = ask_mesh(context, &mut versions).await {
            eprintln!("istioctl: the mesh is not reachable: {error:#}");
        }
    }
    output::print(args.output, &versions, || text(&versions, args.short))
}

async fn ask_mesh(context: &Context, versions: &mut Versions) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&context.global).await?;
    let istiods = cluster.istiods().await?;
    anyhow::ensure!(
        !istiods.is_empty(),
        "no ready control plane in namespace {}",
        context.global.istio_namespace
    );
    let mut proxies = BTreeMap::new();
    for istiod in &istiods {
        let number = istiod.get(&cluster, "/version").await?;
        versions.mesh_version.push(Component {
            name: "pilot".to_owned(),
            revision: istiod.revision.clone(),
            info: Build::of(number.trim()),
        });
        // Each proxy is connected to one of them.
        for row in istiod.json(&cluster, "/debug/syncz").await?.as_array().into_iter().flatten() {
            let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            proxies.insert(word("proxy"), word("istio_version"));
        }
    }
    versions.data_plane_version =
        proxies.into_iter().map(|(id, version)| Proxy { id, version }).collect();
    Ok(())
}

fn text(versions: &Versions, short: bool) -> String {
    let form = |build: &Build| if short { build.version.clone() } else { build.long() };
    let mut text = format!("client version: {}\n", form(&versions.client_version));
    let mut builds: Vec<&Build> = versions.mesh_version.iter().map(|c| &c.info).collect();
    builds.sort();
    builds.dedup();
    match &builds[..] {
        [] => {}
        [one] => text.push_str(&format!("control plane version: {}\n", form(one))),
        _ => {
            let mut table = Table::new(["CONTROL PLANE", "REVISION", "VERSION"]);
            for component in &versions.mesh_version {
                let Component { name, revision, info } = component;
                table.row([name.as_str(), revision, &form(info)]);
            }
            text.push_str(&table.to_string());
        }
    }
    let mut proxies: BTreeMap<&str, usize> = BTreeMap::new();
    for proxy in &versions.data_plane_version {
        *proxies.entry(&proxy.version).or_default() += 1;
    }
    if !proxies.is_empty() {
        let each = proxies.iter().map(|(version, count)| {
            format!("{version} ({count} {})", if *count == 1 { "proxy" } else { "proxies" })
        });
        let all: Vec<String> = each.collect();
        text.push_str(&format!("data plane version: {}\n", all.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_counts_proxies_by_version() {
        let proxy = |id: &str, version: &str| Proxy { id: id.into(), version: version.into() };
        let component = |number| Component {
            name: "pilot".into(),
            revision: "default".into(),
            info: Build::of(number),
        };
        let versions = Versions {
            client_version: Build::of("1.2.3"),
            mesh_version: vec![component("1.2.3"), component("1.2.3")],
            data_plane_version: vec![proxy("a", "1.2"), proxy("b", "1.2"), proxy("c", "1.3")],
        };
        let wanted = "client version: 1.2.3\ncontrol plane version: 1.2.3\n\
            data plane version: 1.2 (2 proxies), 1.3 (1 proxy)\n";
        assert_eq!(text(&versions, true), wanted);
    }

    #[test]
    fn json_has_the_names_that_istios_has() {
        let versions = Versions {
            client_version: Build::of(NUMBER),
            mesh_version: Vec::new(),
            data_plane_version: Vec::new(),
        };
        let json = serde_json::to_value(&versions).unwrap();
        assert_eq!(json["clientVersion"]["version"], NUMBER);
        assert!(json.get("meshVersion").is_none(), "{json}");
    }
}
