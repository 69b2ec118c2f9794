//! Configurations of filters that patches add under a name: filters ask for them by ECDS.

use ironsail_api::istio::networking::{ApplyTo, Operation};
use ironsail_model::ProxyKind;
use ironsail_proto::envoy::config::core::v3::TypedExtensionConfig;

use super::{Patches, select};
use crate::Translated;

impl Patches<'_> {
    /// The configurations that patches add, each with its key.
    pub fn added_extensions(
        &self,
        kind: ProxyKind,
    ) -> Vec<(u64, Translated<Option<TypedExtensionConfig>>)> {
        let mut out: Vec<(u64, Translated<Option<TypedExtensionConfig>>)> = Vec::new();
        for context in select::contexts(kind) {
            let all = self.to(ApplyTo::ExtensionConfig, *context);
            for patch in all.filter(|patch| patch.operation() == Operation::Add) {
                let (key, made) = patch.added();
                if out.iter().all(|(other, _)| *other != key) {
                    out.push((key, made));
                }
            }
        }
        out
    }
}
