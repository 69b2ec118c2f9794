//! What lies in the Secret of the CA in each step: made from the old material and the new.

use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use ironsail_ca::{CA_SECRET, CACERTS_SECRET, Files, Origin, Signing, new_root};
use ironsail_identity::{Certificate, KeyKind, RootBundle};
use zeroize::Zeroizing;

use super::step::{Change, Step};

const ROOTS: &str = "root-cert.pem";
const CERTIFICATE: &str = "ca-cert.pem";
/// What an administrator's folder may hold.
const FOLDER: [&str; 4] = [CERTIFICATE, "ca-key.pem", ROOTS, "cert-chain.pem"];
const MAX_FILE: u64 = 1 << 20;
/// Of a root that is made here, as the control plane makes them.
const LIFETIME: Duration = Duration::from_secs(3650 * 24 * 3600);

/// Files that sign, and what was found in them.
pub(super) struct Material {
    pub(super) files: Files,
    pub(super) signing: Signing,
}

impl Material {
    /// `described` names the files in messages.
    pub(super) fn read(files: Files, described: &str, now: SystemTime) -> anyhow::Result<Self> {
        let origin = Origin::Secret { described: described.to_owned() };
        let signing = Signing::read(&files, &origin, now)
            .context("reading the material of a CA")?
            .with_context(|| format!("{described} holds no CA"))?;
        Ok(Self { files, signing })
    }

    /// The files of a folder.
    pub(super) fn of_folder(folder: &Path, now: SystemTime) -> anyhow::Result<Self> {
        let mut files = Files::new();
        for name in FOLDER {
            let path = folder.join(name);
            if !path.exists() {
                continue;
            }
            let reading = || format!("reading {}", path.display());
            let size = std::fs::metadata(&path).with_context(reading)?.len();
            anyhow::ensure!(size <= MAX_FILE, "{} is larger than {MAX_FILE} bytes", path.display());
            let content = std::fs::read(&path).with_context(reading)?;
            files.insert(name.to_owned(), Zeroizing::new(content));
        }
        Self::read(files, &format!("folder {}", folder.display()), now)
    }

    /// A new self-signed root with the name of the old one.
    pub(super) fn made(old: &Signing, now: SystemTime) -> anyhow::Result<Self> {
        let name = old.anchor().subject();
        let organization = name.strip_prefix("O=").unwrap_or("cluster.local");
        let files = new_root(organization, KeyKind::default(), LIFETIME, now)
            .context("making a new root")?;
        Self::read(files, "the new root", now)
    }

    pub(super) fn root(&self) -> String {
        self.signing.anchor().fingerprint()
    }
}

/// Which Secret the CA uses, by what lies in the two that it may be.
pub(super) fn target(cacerts: Option<&Files>) -> anyhow::Result<&'static str> {
    let has = |file: &str| {
        cacerts.is_some_and(|files| files.get(file).is_some_and(|content| !content.is_empty()))
    };
    anyhow::ensure!(
        !has("tls.crt"),
        "Secret {CACERTS_SECRET} is of type kubernetes.io/tls, which somebody else keeps: \
         put both roots into its ca.crt and let that somebody renew it"
    );
    Ok(if has(CERTIFICATE) { CACERTS_SECRET } else { CA_SECRET })
}

/// The two roots.
pub(super) fn change(old: &Material, new: &Material) -> anyhow::Result<Change> {
    let change = Change { old: old.root(), new: new.root() };
    anyhow::ensure!(
        change.old != change.new,
        "the new CA is below the same root {}: replace the Secret, no rotation is needed",
        change.old
    );
    Ok(change)
}

/// What the Secret holds in a step. Other roots that were trusted before stay.
pub(super) fn contents(step: Step, old: &Material, new: &Material) -> Files {
    let leading = if step == Step::Distribute { old } else { new };
    let mut files = old.files.clone();
    if step != Step::Distribute {
        // What the new one does not have must not stay behind from the old one.
        files.retain(|name, _| !FOLDER.contains(&name.as_str()));
        files.extend(new.files.clone());
    }
    let of = |material: &Material| material.signing.roots().certificates().to_vec();
    let gone = |root: &Certificate| step == Step::Retire && root == old.signing.anchor();
    let all = of(leading).into_iter().chain(of(old)).chain(of(new)).filter(|root| !gone(root));
    let roots = RootBundle::new(all);
    files.insert(ROOTS.to_owned(), Zeroizing::new(roots.pem().as_bytes().to_vec()));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn first() -> Material {
        let files = new_root("cluster.local", KeyKind::default(), LIFETIME, now()).unwrap();
        Material::read(files, "the old root", now()).unwrap()
    }

    #[test]
    fn every_step_signs_and_trusts_what_it_should() {
        let old = first();
        let new = Material::made(&old.signing, now()).unwrap();
        let change = change(&old, &new).unwrap();
        for (step, signs, trusted) in [
            (Step::Distribute, &change.old, 2),
            (Step::Switch, &change.new, 2),
            (Step::Retire, &change.new, 1),
        ] {
            let read = Material::read(contents(step, &old, &new), "it", now()).unwrap();
            assert_eq!(read.root(), *signs, "{step:?}");
            assert_eq!(read.signing.roots().certificates().len(), trusted, "{step:?}");
        }
        assert!(super::change(&old, &old).is_err());
    }

    #[test]
    fn the_secret_is_that_which_the_control_plane_takes() {
        assert_eq!(target(None).unwrap(), CA_SECRET);
        assert_eq!(target(Some(&first().files)).unwrap(), CACERTS_SECRET);
        let extra = Files::from([(ROOTS.to_owned(), Zeroizing::new(b"x".to_vec()))]);
        assert_eq!(target(Some(&extra)).unwrap(), CA_SECRET);
        let tls = Files::from([("tls.crt".to_owned(), Zeroizing::new(b"x".to_vec()))]);
        assert!(target(Some(&tls)).is_err());
    }
}
