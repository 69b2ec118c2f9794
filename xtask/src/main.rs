//! The workspace's own tools: `cargo xtask tidy`, `cargo xtask gen` and `cargo xtask conformance`.
//!
//! Needs nothing installed but cargo.

mod conformance;
mod generate;
mod layer;
mod source;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

commands:
  tidy    check layers, module docs, forbidden words and generated files; list the longest files and
          functions
  gen     make the files that are generated from code: manifests/crds
  conformance --data DIR [family…]
          compare our output with the expectations in DIR; fails below conformance/floors.txt";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let result = match args.next().as_deref() {
        Some("tidy") if args.next().is_none() => tidy(&root()),
        Some("gen") if args.next().is_none() => generate::write(&root()),
        Some("conformance") => match conformance::Options::parse(args) {
            Some(options) => conformance::run(&root(), &options),
            None => return usage(),
        },
        _ => return usage(),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(64)
}

/// The workspace's folder: cargo runs this program from it or from below it.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

fn tidy(root: &Path) -> anyhow::Result<bool> {
    let mut faults = layer::check(root)?;
    faults.extend(generate::stale(root));
    let files = source::rust_files(root)?;
    for file in &files {
        faults.extend(source::faults(file));
    }
    source::print_longest(&files);
    for fault in &faults {
        eprintln!("tidy: {fault}");
    }
    println!("tidy: {} files, {} faults", files.len(), faults.len());
    Ok(faults.is_empty())
}
