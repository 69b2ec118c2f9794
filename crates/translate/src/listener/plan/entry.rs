//! Claims on one address and port: which can live together.

use std::sync::Arc;

use ironsail_api::istio::networking::VirtualService;
use ironsail_api::{ObjectKey, Resource};
use ironsail_model::Protocol;

use crate::listener::outbound::Claim;

/// What is spoken on a listener as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    Http,
    Tcp,
    Auto,
}

/// All that is wanted on one address and port.
pub(super) struct Entry<'a> {
    pub(super) binds: Vec<String>,
    pub(super) bound: bool,
    /// Closed to listeners of the Sidecar that come after.
    pub(super) locked: bool,
    pub(super) spoken: Spoken,
    pub(super) protocol: Protocol,
    pub(super) claims: Vec<Claim>,
    pub(super) routes: &'a [Arc<Resource<VirtualService>>],
    pub(super) refused: Vec<(ObjectKey, String)>,
}

impl Entry<'_> {
    /// Adds a claim if it can live with those that are there; its owner is told if not.
    pub(super) fn add(
        &mut self,
        claim: Claim,
        spoken: Spoken,
        protocol: Protocol,
        owner: Option<&ObjectKey>,
    ) {
        if self.locked {
            return;
        }
        // One that waits for the client's first bytes cannot live beside one whose server speaks first.
        let first = |p: Protocol| matches!(p, Protocol::Mongo | Protocol::Mysql);
        let mixed = protocol != self.protocol;
        if mixed && (first(protocol) || first(self.protocol)) && self.spoken != spoken {
            let why = format!("{} and {} cannot share it", self.protocol, protocol);
            self.refused.extend(owner.map(|owner| (owner.clone(), why)));
            return;
        }
        match (self.spoken, spoken) {
            // HTTP on all addresses is sniffed already; another of the same kind adds nothing.
            (Spoken::Http | Spoken::Auto, Spoken::Http) | (Spoken::Auto, Spoken::Auto) => {
                let twin = matches!(&claim, Claim::Auto(tcp, _) if self.claims.iter().any(|c|
                    matches!(c, Claim::Auto(other, _) if other.host != tcp.host)));
                if twin {
                    let why = "an older service has it".to_owned();
                    self.refused.extend(owner.map(|owner| (owner.clone(), why)));
                }
                // A listener that has only TCP and sniffing still needs routes for HTTP.
                let has_http = self.claims.iter().any(|c| !matches!(c, Claim::Tcp(_)));
                if !has_http {
                    self.claims.push(claim);
                }
            }
            (Spoken::Http, Spoken::Auto) => {
                self.claims = vec![claim];
                self.spoken = Spoken::Auto;
                self.protocol = protocol;
            }
            (Spoken::Tcp, Spoken::Tcp) | (Spoken::Auto, Spoken::Tcp) => self.claims.push(claim),
            (Spoken::Tcp, Spoken::Http | Spoken::Auto) | (Spoken::Http, Spoken::Tcp) => {
                self.claims.push(claim);
                self.spoken = Spoken::Auto;
            }
        }
    }
}
