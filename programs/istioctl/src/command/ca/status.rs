//! `istioctl ca status`: who signs, which roots are trusted by how many, and when what ends.

use std::collections::BTreeMap;

use serde::Serialize;

use super::rotation::{Rotation, Store};
use super::step::Step;
use super::view::{Proxy, Root, Signing, View};
use crate::Context;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::table::Table;

/// So much of a fingerprint tells roots apart.
const SHORT: usize = 12;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Roots, and how many workloads are on which
  istioctl ca status
  # Every workload
  istioctl ca status --workloads
  # For a program
  istioctl ca status -o json")]
pub(super) struct Args {
    /// Show every workload
    #[arg(short, long)]
    workloads: bool,
    /// One of json, yaml
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

/// A root, and who uses it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Used {
    #[serde(flatten)]
    root: Root,
    signs: bool,
    /// Proxies that trust it.
    trusted_by: usize,
    /// Proxies whose certificate leads to it.
    leaves: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    /// By replica of the control plane.
    signing: BTreeMap<String, Option<Signing>>,
    roots: Vec<Used>,
    other_domains: BTreeMap<String, Vec<Root>>,
    problems: Vec<String>,
    rotation: Option<Rotating>,
    workloads: Vec<Proxy>,
    not_connected: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rotating {
    step: Step,
    done: bool,
    secret: String,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let cluster = Cluster::connect(&context.global).await?;
    let view = View::of(&cluster).await?;
    let rotation = Store::new(&cluster).rotation().await?;
    let status = status(&view, rotation.as_ref());
    output::print(args.output, &status, || text(&status, args.workloads))
}

fn status(view: &View, rotation: Option<&Rotation>) -> Status {
    let mut known: BTreeMap<&str, &Root> = BTreeMap::new();
    for root in view.replicas.values().flat_map(|page| &page.roots) {
        known.insert(&root.fingerprint, root);
    }
    let signers: Vec<&str> = view
        .replicas
        .values()
        .filter_map(|page| page.signing.as_ref().map(|signing| signing.root.as_str()))
        .collect();
    let count = |test: &dyn Fn(&Proxy) -> bool| view.proxies.values().filter(|p| test(p)).count();
    let roots = known.into_iter().map(|(print, root)| Used {
        root: root.clone(),
        signs: signers.contains(&print),
        trusted_by: count(&|p| p.reported.as_ref().is_some_and(|r| r.trusts(print))),
        leaves: count(&|p| {
            let leaf = p.reported.as_ref().and_then(|report| report.leaf.as_ref());
            leaf.is_some_and(|leaf| leaf.root == print)
        }),
    });
    let pages = view.replicas.values();
    Status {
        signing: view.replicas.iter().map(|(pod, page)| (pod.clone(), page.signing.clone())).collect(),
        roots: roots.collect(),
        other_domains: pages.clone().flat_map(|page| page.other_domains.clone()).collect(),
        problems: pages.flat_map(|page| page.problems.clone()).collect(),
        rotation: rotation.map(|rotation| Rotating {
            step: rotation.step,
            done: rotation.done,
            secret: rotation.target.clone(),
        }),
        workloads: view.proxies.values().cloned().collect(),
        not_connected: view.absent.iter().cloned().collect(),
    }
}

fn short(fingerprint: &str) -> String {
    fingerprint.chars().take(SHORT).collect()
}

fn date(seconds: u64) -> String {
    let at = jiff::Timestamp::from_second(i64::try_from(seconds).unwrap_or(i64::MAX));
    at.map_or_else(|_| "never".to_owned(), |at| at.to_string())
}

fn text(status: &Status, workloads: bool) -> String {
    let mut text = String::new();
    for (pod, signing) in &status.signing {
        text += &match signing {
            Some(signing) => format!(
                "{pod} signs with {} of {}, until {}\n",
                signing.certificate.subject,
                signing.origin,
                date(signing.certificate.not_after)
            ),
            None => format!("{pod} does not sign\n"),
        };
    }
    let mut table = Table::new(["ROOT", "SUBJECT", "EXPIRES", "SIGNS", "TRUSTED BY", "LEAVES"]);
    for used in &status.roots {
        let signs = if used.signs { "yes" } else { "" };
        table.row([
            short(&used.root.fingerprint),
            used.root.subject.clone(),
            date(used.root.not_after),
            signs.to_owned(),
            format!("{} of {}", used.trusted_by, status.workloads.len()),
            used.leaves.to_string(),
        ]);
    }
    text += &format!("\n{table}");
    for (domain, roots) in &status.other_domains {
        text += &format!("trust domain {domain}: {} roots\n", roots.len());
    }
    if let Some(rotation) = &status.rotation {
        text += &match rotation.done {
            true => "\nA rotation is done; the old key is kept (istioctl ca rotate --forget).\n".to_owned(),
            false => format!("\nA rotation is in step {} (istioctl ca rotate).\n", rotation.step.word()),
        };
    }
    if workloads {
        text += &format!("\n{}", of_workloads(&status.workloads));
    }
    for name in &status.not_connected {
        text += &format!("{name}: its proxy is not connected to the control plane\n");
    }
    for problem in &status.problems {
        text += &format!("{problem}\n");
    }
    text
}

fn of_workloads(proxies: &[Proxy]) -> Table {
    let mut table = Table::new(["WORKLOAD", "TRUSTS", "CERTIFICATE OF", "EXPIRES", "IN USE"]);
    for proxy in proxies {
        let Some(report) = &proxy.reported else {
            table.row([proxy.proxy.as_str(), "unknown", "unknown", "", ""]);
            continue;
        };
        let roots: Vec<String> = report.roots.iter().map(|root| short(root)).collect();
        let leaf = report.leaf.as_ref();
        table.row([
            proxy.proxy.clone(),
            roots.join(","),
            leaf.map(|leaf| short(&leaf.root)).unwrap_or_default(),
            leaf.map(|leaf| date(leaf.not_after)).unwrap_or_default(),
            if report.in_use { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use ironsail_identity::{HeldLeaf, TrustReport};

    use super::super::view::Page;
    use super::*;

    #[test]
    fn the_table_counts_who_is_on_which_root() {
        let root = |print: &str| Root { fingerprint: print.to_owned(), ..Root::default() };
        let leaf = HeldLeaf { root: "aa".to_owned(), not_after: 60, ..HeldLeaf::default() };
        let report = TrustReport {
            roots: vec!["aa".to_owned(), "bb".to_owned()],
            leaf: Some(leaf),
            in_use: true,
        };
        let proxy = Proxy { proxy: "a.b".to_owned(), reported: Some(report), ..Proxy::default() };
        let silent = Proxy { proxy: "c.d".to_owned(), ..Proxy::default() };
        let signing = Some(Signing { root: "aa".to_owned(), ..Signing::default() });
        let (roots, proxies) = (vec![root("aa"), root("bb")], vec![proxy, silent]);
        let mut view = View::default();
        view.add("istiod-1".to_owned(), Page { signing, roots, proxies, ..Page::default() });
        view.absent.insert("e.f".to_owned());
        let status = status(&view, None);
        let text = text(&status, true);
        let rows: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(rows.contains(&"aa 1970-01-01T00:00:00Z yes 1 of 2 1".to_owned()), "{text}");
        assert!(rows.contains(&"bb 1970-01-01T00:00:00Z 1 of 2 0".to_owned()), "{text}");
        assert!(rows.contains(&"a.b aa,bb aa 1970-01-01T00:01:00Z yes".to_owned()), "{text}");
        assert!(rows.contains(&"c.d unknown unknown".to_owned()), "{text}");
        assert!(text.contains("e.f: its proxy is not connected"), "{text}");
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!(json["roots"][0]["trustedBy"], 1);
    }
}
