//! The image map: which directory and programs stand for which image.
//!
//! In comes a YAML file and an image reference, out comes an [`Image`]. The file is read again when
//! it changes. Nothing is ever pulled: an image the map does not know is an error that says which
//! file to edit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use serde::Deserialize;

pub mod pattern;

/// The largest image map that is read.
const MAX_BYTES: u64 = 1 << 20;

/// What the containers of an image see and run by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    pub root: Root,
    /// Directories of programs on the host, put in front of PATH.
    pub path: Vec<PathBuf>,
    /// Files and directories of the host by their place inside.
    pub files: BTreeMap<PathBuf, PathBuf>,
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// `uid`, `uid:gid`, or a name in the root's /etc/passwd.
    pub user: Option<String>,
    pub workdir: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Root {
    /// The host's own root directory.
    #[default]
    Host,
    Dir(PathBuf),
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("image {image:?} is not in the image map {map}: add an entry for it to that file")]
    Unknown { image: String, map: String },
    #[error(
        "image {image:?}: podlet pulls no images and has no image map; start it with --image-map FILE"
    )]
    NoMap { image: String },
    #[error("cannot read the image map {map}: {reason}")]
    Unreadable { map: String, reason: String },
}

/// The map and the file it comes from.
#[derive(Debug)]
pub struct ImageMap {
    file: Option<PathBuf>,
    read: Mutex<Option<Read>>,
}

#[derive(Debug)]
struct Read {
    stamp: Stamp,
    images: Result<Arc<BTreeMap<String, Image>>, String>,
}

/// What tells one version of a file from another without reading it.
type Stamp = Option<(SystemTime, u64)>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    images: BTreeMap<String, Entry>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Entry {
    root: Option<String>,
    path: Vec<PathBuf>,
    files: BTreeMap<PathBuf, PathBuf>,
    entrypoint: Vec<String>,
    cmd: Vec<String>,
    env: BTreeMap<String, String>,
    user: Option<User>,
    workdir: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum User {
    Id(u32),
    Name(String),
}

impl ImageMap {
    /// `None` is a map without images.
    pub fn new(file: Option<PathBuf>) -> Self {
        Self { file, read: Mutex::new(None) }
    }

    /// The closest entry for `image`.
    pub fn find(&self, image: &str) -> Result<Image, Error> {
        let Some(file) = &self.file else {
            return Err(Error::NoMap { image: image.to_owned() });
        };
        let images = self.images(file)?;
        images
            .iter()
            .filter_map(|(pattern, found)| Some((pattern::closeness(pattern, image)?, found)))
            .max_by_key(|(closeness, _)| *closeness)
            .map(|(_, found)| found.clone())
            .ok_or_else(|| Error::Unknown {
                image: image.to_owned(),
                map: file.display().to_string(),
            })
    }

    fn images(&self, file: &Path) -> Result<Arc<BTreeMap<String, Image>>, Error> {
        let stamp = std::fs::metadata(file).ok().and_then(|m| Some((m.modified().ok()?, m.len())));
        let mut read = self.read.lock();
        let fresh = read.as_ref().is_some_and(|r| r.stamp == stamp && stamp.is_some());
        if !fresh {
            *read = Some(Read { stamp, images: load(file).map(Arc::new) });
        }
        let read = read.as_ref().expect("set above");
        read.images
            .clone()
            .map_err(|reason| Error::Unreadable { map: file.display().to_string(), reason })
    }
}

fn load(file: &Path) -> Result<BTreeMap<String, Image>, String> {
    let size = std::fs::metadata(file).map_err(|e| e.to_string())?.len();
    if size > MAX_BYTES {
        return Err(format!("it has {size} bytes, more than {MAX_BYTES}"));
    }
    let text = std::fs::read_to_string(file).map_err(|e| e.to_string())?;
    // A name alone has an empty parent, which `absolute` refuses.
    let file = std::path::absolute(file).map_err(|e| e.to_string())?;
    parse(&text, file.parent().unwrap_or(Path::new("/")))
}

/// `base` is what relative paths are relative to.
fn parse(text: &str, base: &Path) -> Result<BTreeMap<String, Image>, String> {
    let file: File = serde_saphyr::from_str(text).map_err(|e| e.to_string())?;
    let place = |(pattern, entry): (String, Entry)| {
        for inside in entry.files.keys() {
            if !inside.is_absolute() {
                return Err(format!(
                    "image {pattern}: files: {} is not absolute",
                    inside.display()
                ));
            }
        }
        let image = Image {
            root: match entry.root.as_deref() {
                None | Some("host") => Root::Host,
                Some(dir) => Root::Dir(base.join(dir)),
            },
            path: entry.path.iter().map(|p| base.join(p)).collect(),
            files: entry
                .files
                .into_iter()
                .map(|(inside, host)| (inside, base.join(host)))
                .collect(),
            entrypoint: entry.entrypoint,
            cmd: entry.cmd,
            env: entry.env,
            user: entry.user.map(|user| match user {
                User::Id(id) => id.to_string(),
                User::Name(name) => name,
            }),
            workdir: entry.workdir,
        };
        Ok((pattern, image))
    };
    file.images.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "
images:
  curl:
    root: host
    path: [bin]
    entrypoint: [curl]
    cmd: [--help]
    env: {A: b}
    user: 1000
  reg.example/app:v2:
    root: roots/app
    files: {/etc/app.conf: conf/app.conf}
    workdir: /srv
";

    #[test]
    fn paths_are_relative_to_the_map() {
        let images = parse(MAP, Path::new("/maps")).unwrap();
        assert_eq!(images["curl"].path, [PathBuf::from("/maps/bin")]);
        assert_eq!(images["curl"].user.as_deref(), Some("1000"));
        let app = &images["reg.example/app:v2"];
        assert_eq!(app.root, Root::Dir("/maps/roots/app".into()));
        assert_eq!(app.files[Path::new("/etc/app.conf")], PathBuf::from("/maps/conf/app.conf"));
    }

    #[test]
    fn an_unknown_field_is_refused() {
        assert!(parse("images: {a: {entry: [x]}}", Path::new("/")).is_err());
    }

    #[test]
    fn a_changed_file_is_read_again_and_an_unknown_image_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("images.yaml");
        std::fs::write(&file, MAP).unwrap();
        let map = ImageMap::new(Some(file.clone()));
        assert_eq!(map.find("x/curl:1").unwrap().entrypoint, ["curl"]);
        let error = map.find("nginx:1").unwrap_err().to_string();
        assert!(
            error.contains(&file.display().to_string()) && error.contains("nginx:1"),
            "{error}"
        );
        std::fs::write(&file, "images: {nginx: {entrypoint: [nginx, -v]}}").unwrap();
        assert_eq!(map.find("nginx:1").unwrap().entrypoint, ["nginx", "-v"]);
        std::fs::write(&file, "images: [").unwrap();
        assert!(matches!(map.find("nginx:1"), Err(Error::Unreadable { .. })));
    }
}
