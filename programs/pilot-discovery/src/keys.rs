//! Keys of token issuers: what the snapshot wants goes to those who fetch, what they bring goes back.

use std::sync::Arc;

use ironsail_daemon::task::Supervisor;
use ironsail_discovery::Engine;
use ironsail_jwks::{Settings, Trust, Wanted};
use ironsail_sys::env::Env;
use tokio::sync::watch;

use crate::setting::Setting;

/// Where roots of the public PKI are, and where users put their own.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/cacerts/extra.pem",
];

/// Whom servers of documents must be vouched for by.
pub(crate) fn web_trust() -> Trust {
    let env = Env::of_process();
    let named = env.var("SSL_CERT_FILE").filter(|path| !path.is_empty());
    Trust::read(BUNDLES.into_iter().chain(named))
}

pub(crate) fn start(setting: &Setting, engine: Arc<Engine>, tasks: &mut Supervisor) {
    let trust = web_trust();
    let settings = Settings { refresh: setting.variables.key_refresh, trust };
    let (sender, wanted) = watch::channel(Wanted::default());
    let (keys, stop) = (engine.keys(), tasks.stop_token());
    tasks.spawn("keys of token issuers", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = ironsail_jwks::run(settings, wanted, keys) => {}
        }
        Ok(())
    });
    let stop = tasks.stop_token();
    tasks.spawn("wanted keys of token issuers", async move {
        let mut refreshed = engine.refreshed();
        loop {
            if let Some(snapshot) = engine.snapshot() {
                let now = snapshot.wanted_keys();
                sender.send_if_modified(|known| {
                    let differs = **known != now;
                    if differs {
                        *known = Arc::new(now);
                    }
                    differs
                });
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                changed = refreshed.changed() => if changed.is_err() { return Ok(()) },
            }
        }
    });
}
