//! .proto text to descriptors, by `protox`.
//!
//! In: the folders with the sources; out: one descriptor a file, by file name. Everything is
//! compiled, also what no Rust type is made for: JSON of users may name any of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prost::Message;
use prost_types::FileDescriptorProto;
use protox::file::{
    ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver,
};
use protox::{Compiler, Error};

/// A set of descriptors whose files are not opened: options that extensions define stay in them, which
/// the types of `prost` would drop.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Sealed {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) file: Vec<Vec<u8>>,
}

/// One compiled file: opened, and as it was written.
pub(crate) struct Compiled {
    pub(crate) file: FileDescriptorProto,
    pub(crate) bytes: Vec<u8>,
}

/// Import roots inside the package.
const ROOTS: &[&str] = &[
    "cel-spec/proto",
    "client_model",
    "data-plane-api",
    "googleapis",
    "opentelemetry-proto",
    "protoc-gen-validate",
    "xds",
];

/// A name that `protox` resolves to the wrong package, and the same in full.
const DNS_CACHE: (&str, &str, &str) = (
    "envoy/extensions/clusters/dynamic_forward_proxy/v3/cluster.proto",
    " common.dynamic_forward_proxy.v3.DnsCacheConfig ",
    " envoy.extensions.common.dynamic_forward_proxy.v3.DnsCacheConfig ",
);

pub(crate) fn all(own: &Path, envoy: &Path) -> Result<BTreeMap<String, Compiled>, String> {
    let mut includes = vec![own.to_path_buf()];
    includes.extend(ROOTS.iter().map(|root| envoy.join(root)));
    let mut names = Vec::new();
    for include in &includes {
        list(include, include, &mut names)?;
    }
    names.sort_unstable();
    let mut files = BTreeMap::new();
    let mut compiler = compiler(&includes);
    for name in &names {
        if compiler.open_file(name).is_ok() {
            continue;
        }
        // A file that an earlier one made ambiguous compiles in a compiler of its own.
        keep(&compiler, &mut files)?;
        compiler = self::compiler(&includes);
        compiler.open_file(name).map_err(|e| format!("{name}: {e:?}"))?;
    }
    keep(&compiler, &mut files)?;
    Ok(files)
}

fn compiler(includes: &[PathBuf]) -> Compiler {
    let mut resolver = ChainFileResolver::new();
    resolver.add(Sources(includes.iter().cloned().map(IncludeFileResolver::new).collect()));
    resolver.add(GoogleFileResolver::new());
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).include_source_info(false);
    compiler
}

fn keep(compiler: &Compiler, files: &mut BTreeMap<String, Compiled>) -> Result<(), String> {
    let unreadable = |e: prost::DecodeError| format!("descriptors that protox wrote: {e}");
    let set =
        Sealed::decode(compiler.encode_file_descriptor_set().as_slice()).map_err(unreadable)?;
    for bytes in set.file {
        let file = FileDescriptorProto::decode(bytes.as_slice()).map_err(unreadable)?;
        files.insert(file.name().to_owned(), Compiled { file, bytes });
    }
    Ok(())
}

/// The folders in order, with the one name put right.
struct Sources(Vec<IncludeFileResolver>);

impl FileResolver for Sources {
    fn open_file(&self, name: &str) -> Result<File, Error> {
        let mut result = Err(Error::file_not_found(name));
        for folder in &self.0 {
            result = folder.open_file(name);
            if !matches!(&result, Err(e) if e.is_file_not_found()) {
                break;
            }
        }
        let file = result?;
        let (patched, short, full) = DNS_CACHE;
        match file.source() {
            Some(source) if name == patched => {
                File::from_source(name, &source.replace(short, full))
            }
            _ => Ok(file),
        }
    }
}

fn list(root: &Path, folder: &Path, names: &mut Vec<String>) -> Result<(), String> {
    let said = |e: std::io::Error| format!("listing {}: {e}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(said)? {
        let path = entry.map_err(said)?.path();
        if path.is_dir() {
            list(root, &path, names)?;
        } else if path.extension().is_some_and(|e| e == "proto") {
            let name = path.strip_prefix(root).map_err(|e| e.to_string())?;
            names.push(name.to_string_lossy().into_owned());
        }
    }
    Ok(())
}
