//! Patches of what Envoy starts with. It is asked for by agents that are told to
//! (`BOOTSTRAP_XDS_AGENT`), once, before they start Envoy.

use ironsail_api::Diagnostic;
use ironsail_api::istio::networking::ApplyTo;
use ironsail_model::ProxyKind;
use ironsail_proto::envoy::config::bootstrap::v3::Bootstrap;

use super::listener::attempt;
use super::merge::merged;
use super::{Patch, Patches, contexts};
use crate::Translated;

impl<'a> Patches<'a> {
    /// The bootstrap with every patch that fits.
    pub fn bootstrap(&self, kind: ProxyKind, made: Bootstrap) -> Translated<Bootstrap> {
        let (mut value, mut diagnostics) = (made, Vec::new());
        for patch in self.to_bootstrap(kind) {
            attempt(&mut value, &patch, &mut diagnostics, merge);
        }
        Translated { value, diagnostics }
    }

    /// What there is to say about patches of the bootstrap, whatever they are merged into. `asks`:
    /// the proxies ask for theirs.
    pub(crate) fn told_of_bootstrap(
        &self,
        kind: ProxyKind,
        asks: bool,
        found: &mut Vec<Diagnostic>,
    ) {
        for patch in self.to_bootstrap(kind) {
            if !asks {
                patch.refuse(
                    found,
                    "proxies without BOOTSTRAP_XDS_AGENT: \"true\" in their proxyMetadata start \
                     with a bootstrap of their own",
                );
            } else if let Err(why) = merge(&mut Bootstrap::default(), &patch) {
                patch.refuse(found, why);
            }
        }
    }

    fn to_bootstrap(&self, kind: ProxyKind) -> impl Iterator<Item = Patch<'a>> + use<'_, 'a> {
        let sides = contexts(kind);
        let all = self.all.iter().copied();
        all.filter(move |patch| {
            patch.apply_to() == ApplyTo::Bootstrap && sides.iter().any(|side| patch.is_for(*side))
        })
    }
}

fn merge(bootstrap: &mut Bootstrap, patch: &Patch<'_>) -> Result<(), String> {
    if !patch.merges() {
        return Err("a bootstrap can be merged with only".into());
    }
    let message = patch.message()?.ok_or("it has no value")?;
    let node = bootstrap.node.clone();
    let out: Bootstrap = merged(bootstrap, &message, patch.lists())?;
    if out.node != node {
        return Err("who the proxy is cannot be changed".into());
    }
    *bootstrap = out;
    Ok(())
}
