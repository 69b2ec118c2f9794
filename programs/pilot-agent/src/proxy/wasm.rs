//! WebAssembly modules: fetched here before Envoy sees the configuration that wants them.
//!
//! In: configurations of filters on their way to Envoy (ECDS). Out: the same, with every module that
//! lies elsewhere fetched, checked and named by its file here. A module that cannot be had follows its
//! fail strategy: a filter that refuses everything, or one that lets everything pass. Nothing but the
//! configurations of modules is looked at.

mod cache;
mod fetch;
mod oci;
mod unpack;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ironsail_proto::envoy::config::core::v3::{
    AsyncDataSource, DataSource, RemoteDataSource, TypedExtensionConfig,
    async_data_source::Specifier as Code, data_source::Specifier,
};
use ironsail_proto::envoy::config::rbac::v3::{
    Permission, Policy, Principal, Rbac as Rules, permission, principal, rbac::Action,
};
use ironsail_proto::envoy::extensions::filters::http::rbac::v3::Rbac as HttpRbac;
use ironsail_proto::envoy::extensions::filters::http::wasm::v3::Wasm as HttpWasm;
use ironsail_proto::envoy::extensions::filters::network::rbac::v3::Rbac as NetworkRbac;
use ironsail_proto::envoy::extensions::filters::network::wasm::v3::Wasm as NetworkWasm;
use ironsail_proto::envoy::extensions::wasm::v3::{FailurePolicy, PluginConfig, plugin_config::Vm};
use ironsail_proto::google::protobuf::Any;
use ironsail_proto::{pack, unpack as open};
use tracing::{info, warn};

pub(crate) use cache::Cache;
use fetch::Fetcher;

pub(super) const ECDS: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";
/// Variables that are for the agent and no module's business.
const SECRET: &str = "ISTIO_META_WASM_IMAGE_PULL_SECRET";
const POLICY: &str = "ISTIO_META_WASM_IMAGE_PULL_POLICY";
const VERSION: &str = "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION";
/// In the place of a checksum that nobody gave.
const NO_CHECKSUM: &str = "nil";
const TIMEOUT: Duration = Duration::from_secs(30);

/// Modules are kept where Envoy, which may be another user, can read them.
pub(super) fn cache(environment: &BTreeMap<String, String>, folder: &Path) -> Arc<Cache> {
    let variable = |name: &str| environment.get(name).map(String::as_str);
    let bundle = variable("SSL_CERT_FILE").map(str::to_owned);
    let insecure = variable("WASM_INSECURE_REGISTRIES").unwrap_or_default();
    Arc::new(Cache::new(folder, Fetcher::new(bundle, insecure)))
}

/// What is to be fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) url: String,
    /// Empty: whatever comes.
    pub(crate) sha256: String,
    /// A Docker configuration with what registries want to see.
    pub(crate) secret: String,
    /// Of the object that wants it: another one fetches again if it should.
    pub(crate) version: String,
    pub(crate) always: bool,
}

/// Puts files in the place of addresses, in all of `resources`.
pub(super) async fn rewrite(cache: &Arc<Cache>, resources: Vec<Any>) -> Vec<Any> {
    let one = async |any: Any| match open::<TypedExtensionConfig>(&any) {
        Ok(extension) => rewrite_one(cache, extension).await.map_or(any, |done| pack(&done)),
        Err(_) => any,
    };
    futures::future::join_all(resources.into_iter().map(one)).await
}

/// None if there is nothing to do.
async fn rewrite_one(
    cache: &Arc<Cache>,
    extension: TypedExtensionConfig,
) -> Option<TypedExtensionConfig> {
    let any = extension.typed_config.as_ref()?;
    let (mut http, mut network) = (open::<HttpWasm>(any).ok(), open::<NetworkWasm>(any).ok());
    let config = match (&mut http, &mut network) {
        (Some(http), _) => http.config.as_mut()?,
        (None, Some(network)) => network.config.as_mut()?,
        (None, None) => return None,
    };
    let wanted = wanted(config)?;
    let name = extension.name.clone();
    let got = tokio::time::timeout(TIMEOUT, cache.get(&wanted)).await;
    let got = got.unwrap_or_else(|_| Err(fetch::Error::Slow(wanted.url.clone())));
    let typed = match got {
        Ok(file) => {
            info!(target: "wasm", "{name}: {} is {}", wanted.url, file.display());
            set_file(config, &file);
            match (&http, &network) {
                (Some(http), _) => pack(http),
                (_, Some(network)) => pack(network),
                (None, None) => return None,
            }
        }
        Err(error) => {
            let open = config.failure_policy() == FailurePolicy::FailOpen;
            let what = if open { "let through" } else { "refused" };
            warn!(target: "wasm", "{name}: fetching {}: {error}; traffic is {what}", wanted.url);
            instead(http.is_some(), open)
        }
    };
    Some(TypedExtensionConfig { name, typed_config: Some(typed) })
}

/// What the module's configuration asks for; the agent's own variables are taken out.
fn wanted(config: &mut PluginConfig) -> Option<Wanted> {
    let Some(Vm::VmConfig(vm)) = &mut config.vm else { return None };
    let Some(AsyncDataSource { specifier: Some(Code::Remote(remote)) }) = &vm.code else {
        return None;
    };
    let RemoteDataSource { http_uri: Some(uri), sha256, .. } = remote else { return None };
    let mut wanted = Wanted { url: uri.uri.clone(), ..Wanted::default() };
    if sha256 != NO_CHECKSUM {
        wanted.sha256.clone_from(sha256);
    }
    if let Some(variables) = &mut vm.environment_variables {
        let mut take = |name: &str| variables.key_values.remove(name).unwrap_or_default();
        wanted.secret = take(SECRET);
        wanted.version = take(VERSION);
        wanted.always = take(POLICY) == "Always";
        if variables.key_values.is_empty() && variables.host_env_keys.is_empty() {
            vm.environment_variables = None;
        }
    }
    Some(wanted)
}

fn set_file(config: &mut PluginConfig, file: &Path) {
    let name = file.display().to_string();
    if let Some(Vm::VmConfig(vm)) = &mut config.vm {
        let local = DataSource { specifier: Some(Specifier::Filename(name)), ..Default::default() };
        vm.code = Some(AsyncDataSource { specifier: Some(Code::Local(local)) });
    }
}

/// A filter that stands where the module would: lets everything pass, or nothing.
fn instead(http: bool, open: bool) -> Any {
    let everything = Policy {
        permissions: vec![Permission { rule: Some(permission::Rule::Any(true)) }],
        principals: vec![Principal { identifier: Some(principal::Identifier::Any(true)) }],
        ..Policy::default()
    };
    let rules = (!open).then(|| Rules {
        action: Action::Deny.into(),
        policies: [("module-missing".to_owned(), everything)].into(),
        ..Rules::default()
    });
    match http {
        true => pack(&HttpRbac { rules, ..HttpRbac::default() }),
        false => {
            let stat_prefix = "module_missing".to_owned();
            pack(&NetworkRbac { rules, stat_prefix, ..NetworkRbac::default() })
        }
    }
}

#[cfg(test)]
mod tests;
