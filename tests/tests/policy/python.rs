//! An image with Python and the libraries that scripts/setup brings, for peers that are not ours.

use std::path::{Path, PathBuf};

use ironsail_sys::env::Env;

fn library(name: &str) -> PathBuf {
    let env = Env::of_process();
    let cache = match (env.var("IRONSAIL_CACHE"), env.var("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, home) => PathBuf::from(home.unwrap_or("/root")).join(".cache/ironsail"),
    };
    let path = cache.join("tools").join(name);
    std::fs::canonicalize(&path).unwrap_or_else(|_| panic!("scripts/setup installs {name}"))
}

/// The flags of a podlet that knows the image `python`.
pub(crate) fn with_python(folder: &Path) -> Vec<String> {
    let file = folder.join("images.yaml");
    let mut map = std::fs::read_to_string(&file).unwrap();
    map += &format!(
        "  python: {{root: host, entrypoint: [python3], files: {{/opt/grpcio: {}, /opt/oidc: {}}}, \
         env: {{PYTHONPATH: '/opt/grpcio:/opt/oidc'}}}}\n",
        library("grpcio").display(),
        library("oidc-provider-mock").display(),
    );
    std::fs::write(file, map).unwrap();
    vec!["--nodes".to_owned(), "2".to_owned()]
}
