//! Generates the wire types.
//!
//! In: the .proto files of the pinned `envoy-types` package and our own under `protos/`; out, in
//! `OUT_DIR`: Rust types of the files listed in `root.rs` and what they import, and the descriptors
//! of every file for JSON. Needs no protoc, and writes nothing outside `OUT_DIR`.

#![expect(clippy::disallowed_methods, reason = "a build script cannot use the crate `sys`")]

mod compile;
mod locate;
mod root;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use compile::{Compiled, Sealed};
use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet};

fn main() {
    if let Err(error) = generate() {
        eprintln!("generating the wire types: {error}");
        std::process::exit(1);
    }
}

fn generate() -> Result<(), String> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    // Asked now and not when this was compiled: checkouts in different places may share a cache.
    let here =
        std::env::var("CARGO_MANIFEST_DIR").map_err(|e| format!("CARGO_MANIFEST_DIR: {e}"))?;
    let own = Path::new(&here).join("protos");
    let envoy = locate::envoy_protos(&here)?;
    for watched in [own.as_path(), Path::new("build"), Path::new("Cargo.toml"), envoy.as_path()] {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    let files = compile::all(&own, &envoy)?;
    let every = Sealed { file: files.values().map(|one| one.bytes.clone()).collect() };
    std::fs::write(out.join("descriptors.bin"), every.encode_to_vec())
        .map_err(|e| format!("writing the descriptors: {e}"))?;
    rust_types(&out, FileDescriptorSet { file: imported(&files)? })
}

/// The files of `root.rs`, our own, and what they import.
fn imported(files: &BTreeMap<String, Compiled>) -> Result<Vec<FileDescriptorProto>, String> {
    let mut wanted: Vec<&str> = files
        .keys()
        .map(String::as_str)
        .filter(|name| root::FOLDERS.iter().any(|folder| name.starts_with(folder)))
        .collect();
    let mut taken = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        let Compiled { file, .. } =
            files.get(name).ok_or_else(|| format!("{name} is imported and not there"))?;
        if taken.insert(name) {
            wanted.extend(file.dependency.iter().map(String::as_str));
        }
    }
    Ok(taken.into_iter().map(|name| files[name].file.clone()).collect())
}

fn rust_types(out: &Path, files: FileDescriptorSet) -> Result<(), String> {
    let mut config = prost_build::Config::new();
    config
        .out_dir(out)
        .include_file("packages.rs")
        // Maps in order, so that equal messages have equal bytes.
        .btree_map(["."])
        // Encoded resources are shared between proxies, never copied.
        .bytes([".google.protobuf.Any"])
        .compile_well_known_types()
        .enable_type_names()
        .type_name_domain(["."], "type.googleapis.com")
        .disable_comments(["."]);
    tonic_prost_build::configure()
        .build_transport(false)
        .compile_fds_with_config(files, config)
        .map_err(|e| format!("writing the Rust types: {e}"))
}
