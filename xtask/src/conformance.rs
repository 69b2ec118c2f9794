//! `cargo xtask conformance --data DIR`: our output against published expectations.
//!
//! In: a folder with one folder a family (its README says how each is compared; it is no part of this
//! repository); out: `family: passed/total` with the cases that failed and why. A family that passes
//! fewer cases than `conformance/floors.txt` records makes the run fail. One module a family.

mod ambient_authz;
mod authz;
mod bootstrap;
mod crd;
mod floor;
mod ingress;
mod inject;
mod iptables;
mod kube_inject;
mod nftables;
mod ruleset;
mod scale;
mod validation;

use std::path::{Path, PathBuf};

use anyhow::Context;

/// How one case ended.
enum Verdict {
    Passed,
    Failed(String),
    /// We differ, and mean to.
    #[allow(dead_code, reason = "whether a family has such cases changes")]
    OnPurpose(&'static str),
}

struct Case {
    name: String,
    verdict: Verdict,
}

impl Case {
    /// Passed, or failed with the reason.
    fn judged(name: impl Into<String>, result: Result<(), String>) -> Self {
        let verdict = result.map_or_else(Verdict::Failed, |()| Verdict::Passed);
        Self { name: name.into(), verdict }
    }
}

type Family = fn(&Path) -> anyhow::Result<Vec<Case>>;

/// Folder and judge of each family that is run.
const FAMILIES: &[(&str, Family)] = &[
    ("iptables", iptables::cases),
    ("nftables", nftables::cases),
    ("crds", crd::cases),
    ("validation", validation::cases),
    ("inject", inject::cases),
    ("kube-inject", kube_inject::cases),
    ("bootstrap", bootstrap::cases),
    ("ingress", ingress::cases),
    ("scale", scale::cases),
    ("authz", authz::cases),
    ("ambient-authz", ambient_authz::cases),
];

/// What the command line asks for.
pub(crate) struct Options {
    data: PathBuf,
    /// Only these families, if any are named.
    only: Vec<String>,
}

impl Options {
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let mut data = None;
        let mut only = Vec::new();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--data" => data = Some(PathBuf::from(args.next()?)),
                name if FAMILIES.iter().any(|(family, _)| *family == name) => {
                    only.push(name.to_owned());
                }
                _ => return None,
            }
        }
        Some(Self { data: data?, only })
    }
}

pub(crate) fn run(root: &Path, options: &Options) -> anyhow::Result<bool> {
    let floors = floor::read(&root.join("conformance/floors.txt"))?;
    let mut good = true;
    for (family, judge) in FAMILIES {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == family) {
            continue;
        }
        let cases =
            judge(&options.data.join(family)).with_context(|| format!("family {family}"))?;
        let passed = report(family, &cases);
        let floor = floors.get(*family).copied().unwrap_or(0);
        if passed < floor {
            eprintln!("conformance: {family} passes {passed} cases, its floor is {floor}");
            good = false;
        }
        if passed > floor {
            println!("  the floor of {family} can rise from {floor} to {passed}");
        }
    }
    Ok(good)
}

fn report(family: &str, cases: &[Case]) -> usize {
    let passed = cases.iter().filter(|case| matches!(case.verdict, Verdict::Passed)).count();
    println!("{family}: {passed}/{}", cases.len());
    for Case { name, verdict } in cases {
        match verdict {
            Verdict::Passed => {}
            Verdict::Failed(reason) => println!("  failed {name}: {reason}"),
            Verdict::OnPurpose(reason) => println!("  differs on purpose {name}: {reason}"),
        }
    }
    passed
}

/// The text of one file of the data.
fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}
