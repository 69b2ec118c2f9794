//! SDS: the proxy fetches its certificate and the roots on a Unix socket.
//!
//! In: names of secrets; out: `default` and `ROOTCA` from the workload's own certificate,
//! `file-cert:CHAIN~KEY` and `file-root:ROOTS` from files, each pushed again when it changes. With
//! `ROOTCA` goes the CA's list of certificates that it took back, if it has one.

mod revoked;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use futures::future::BoxFuture;
use ironsail_proto::Message;
use ironsail_proto::envoy::config::core::v3::{DataSource, data_source::Specifier};
use ironsail_proto::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, Secret, TlsCertificate, secret,
};
use ironsail_xds::server::{Caller, Dirty, Discovery, Feed, Report, Secrets, Settings, Source};
use ironsail_xds::{Interest, Resource, SDS, Set, TypeUrl, Verdict};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::{debug, warn};

use revoked::Revoked;

use super::relay::bind;
use super::secret::{Bundle, FilePair, Newest, Watch, read_roots};

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
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let listener = bind(socket)?;
    let service = Secrets(Discovery::new(Shelf { newest, crl }, Settings::default()));
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
}

impl Source for Shelf {
    fn open(&self, _: Caller) -> BoxFuture<'_, Result<Box<dyn Feed>, Status>> {
        let (newest, crl) = (self.newest.clone(), Revoked::new(self.crl.clone()));
        Box::pin(async move {
            let feed = One { newest, crl, files: Watch::default(), last: Arc::default() };
            Ok(Box::new(feed) as Box<dyn Feed>)
        })
    }
}

/// What one stream of the proxy wants.
struct One {
    newest: Newest,
    crl: Revoked,
    files: Watch,
    last: Arc<Set>,
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
                () = self.files.changed() => {}
            }
            Some(Dirty::Types(vec![SDS.into()]))
        })
    }

    fn report(&mut self, report: Report<'_>) {
        match report {
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
            DEFAULT => certificate(&bundle?.credential),
            ROOT => {
                self.files.add(self.crl.path().to_owned());
                roots(bundle?.roots.pem(), self.crl.read())
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

fn roots(pem: &str, crl: Option<&str>) -> secret::Type {
    secret::Type::ValidationContext(CertificateValidationContext {
        trusted_ca: inline(pem),
        crl: crl.and_then(inline),
        ..CertificateValidationContext::default()
    })
}
