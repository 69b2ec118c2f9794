//! SDS: the proxy fetches its certificate and the roots on a Unix socket.
//!
//! In: names of secrets; out: `default` and `ROOTCA` from the workload's own certificate,
//! `file-cert:CHAIN~KEY` and `file-root:ROOTS` from files, each pushed again when it changes. With
//! `ROOTCA` goes the CA's list of certificates that it took back, if it has one.

mod revoked;
#[cfg(test)]
mod tests;
mod validator;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use futures::future::BoxFuture;
use ironsail_identity::Announcement;
use ironsail_proto::Message;
use ironsail_proto::envoy::config::core::v3::{DataSource, data_source::Specifier};
use ironsail_proto::envoy::extensions::transport_sockets::tls::v3::{
    Secret, TlsCertificate, secret,
};
use ironsail_xds::server::{Caller, Dirty, Discovery, Feed, Report, Secrets, Settings, Source};
use ironsail_xds::{Interest, Resource, SDS, Set, TypeUrl, Verdict, Version};
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::{debug, warn};

use revoked::Revoked;
use validator::roots;

use super::relay::bind;
use super::secret::{Bundle, FilePair, Newest, Watch, read_roots};
use super::trust::{Taken, Trust, fingerprints};

/// The workload's own certificate.
const DEFAULT: &str = "default";
/// The mesh's roots.
const ROOT: &str = "ROOTCA";
/// The machine's own roots, instead of a path.
const SYSTEM: &str = "system";
const SYSTEM_ROOTS: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// How many files one proxy may have watched.
const MAX_FILES: usize = 256;

/// Serves secrets on a Unix socket until told to stop.
pub(crate) async fn serve(
    socket: &Path,
    newest: Newest,
    crl: PathBuf,
    trust: Trust,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let listener = bind(socket)?;
    let service = Secrets(Discovery::new(Shelf { newest, crl, trust }, Settings::default()));
    tonic::transport::Server::builder()
        .add_service(service)
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), stop.cancelled())
        .await?;
    Ok(())
}

struct Shelf {
    newest: Newest,
    /// Certificates that the CA took back; the file need not be there.
    crl: PathBuf,
    trust: Trust,
}

impl Source for Shelf {
    fn open(&self, _: Caller) -> BoxFuture<'_, Result<Box<dyn Feed>, Status>> {
        let (newest, crl) = (self.newest.clone(), Revoked::new(self.crl.clone()));
        let trust = self.trust.clone();
        Box::pin(async move {
            let feed = One {
                newest,
                crl,
                announced: trust.announced(),
                stream: trust.enter(),
                trust,
                files: Watch::default(),
                last: Arc::default(),
                offered: Taken::default(),
                sent: None,
            };
            Ok(Box::new(feed) as Box<dyn Feed>)
        })
    }
}

/// What one stream of the proxy wants.
struct One {
    newest: Newest,
    crl: Revoked,
    announced: watch::Receiver<Option<Arc<Announcement>>>,
    trust: Trust,
    /// What the trust knows this stream by.
    stream: u64,
    files: Watch,
    last: Arc<Set>,
    /// What is in the last set, and what was in the last response.
    offered: Taken,
    sent: Option<(Version, Taken)>,
}

impl Drop for One {
    fn drop(&mut self) {
        self.trust.leave(self.stream);
    }
}

impl Feed for One {
    fn set<'a>(
        &'a mut self,
        type_url: &'a TypeUrl,
        interest: &'a Interest,
    ) -> BoxFuture<'a, Arc<Set>> {
        Box::pin(async move {
            if &**type_url != SDS {
                return Arc::default();
            }
            self.files = Watch::default();
            self.offered = Taken::default();
            self.announced.mark_unchanged();
            let bundle = self.newest.borrow_and_update().clone();
            let mut secrets = Vec::new();
            for name in interest.names.iter() {
                if let Some(secret) = self.secret(name, bundle.as_deref()) {
                    secrets.push(Resource::new(name.clone(), secret.encode_to_vec()));
                }
            }
            self.last = Set::after(&self.last, secrets);
            self.last.clone()
        })
    }

    fn changed(&mut self) -> BoxFuture<'_, Option<Dirty>> {
        Box::pin(async move {
            tokio::select! {
                renewed = self.newest.changed() => renewed.ok()?,
                told = self.announced.changed() => told.ok()?,
                () = self.files.changed() => {}
            }
            Some(Dirty::Types(vec![SDS.into()]))
        })
    }

    fn report(&mut self, report: Report<'_>) {
        match report {
            Report::Sent(response) => self.sent = Some((response.version, self.offered.clone())),
            Report::Answered { verdict: Verdict::Accepted { version }, .. } => {
                if let Some((_, taken)) = self.sent.take_if(|(sent, _)| sent == version) {
                    self.trust.took(self.stream, taken);
                }
            }
            Report::Answered { verdict: Verdict::Rejected(why), .. } => {
                warn!(target: "sds", "the proxy refused a secret: {why:?}");
            }
            report => debug!(target: "sds", "{report:?}"),
        }
    }
}

impl One {
    /// The secret of that name, if it can be had now.
    fn secret(&mut self, name: &str, bundle: Option<&Bundle>) -> Option<Secret> {
        let kind = match name {
            DEFAULT => {
                let bundle = bundle?;
                self.offered.leaf = Some(self.trust.leaf(bundle));
                certificate(&bundle.credential)
            }
            ROOT => {
                self.files.add(self.crl.path().to_owned());
                let trusted = self.trust.roots(&bundle?.roots);
                self.offered.roots = Some(fingerprints(&trusted.own));
                validator::of_mesh(&trusted, self.crl.read())
            }
            name => match self.read_file(name) {
                Ok(kind) => kind,
                Err(error) => {
                    warn!(target: "sds", "secret {name}: {error:#}");
                    return None;
                }
            },
        };
        Some(Secret { name: name.to_owned(), r#type: Some(kind) })
    }

    fn read_file(&mut self, name: &str) -> anyhow::Result<secret::Type> {
        anyhow::ensure!(self.files.len() < MAX_FILES, "more than {MAX_FILES} files are asked for");
        if let Some(pair) = name.strip_prefix("file-cert:") {
            let (chain, key) = pair
                .split_once('~')
                .ok_or_else(|| anyhow::anyhow!("file-cert: needs CHAIN~KEY"))?;
            let pair = FilePair { chain: chain.into(), key: key.into() };
            self.files.add(pair.chain.clone());
            self.files.add(pair.key.clone());
            return Ok(certificate(&pair.read()?));
        }
        if let Some(path) = name.strip_prefix("file-root:") {
            let path = if path == SYSTEM { system_roots()? } else { Path::new(path) };
            self.files.add(path.to_owned());
            return Ok(roots(read_roots(path)?.pem(), None));
        }
        anyhow::bail!("there is no such secret here")
    }
}

/// Where distributions keep the roots of the web.
fn system_roots() -> anyhow::Result<&'static Path> {
    let mut there = SYSTEM_ROOTS.iter().map(Path::new).filter(|path| path.exists());
    there.next().context("this machine has no file of root certificates that is known")
}

fn inline(bytes: impl Into<Vec<u8>>) -> Option<DataSource> {
    let specifier = Some(Specifier::InlineBytes(bytes.into()));
    Some(DataSource { specifier, ..DataSource::default() })
}

fn certificate(credential: &ironsail_identity::Credential) -> secret::Type {
    secret::Type::TlsCertificate(TlsCertificate {
        certificate_chain: inline(credential.chain_pem()),
        private_key: inline(credential.key().to_pem().as_bytes().to_vec()),
        ..TlsCertificate::default()
    })
}
