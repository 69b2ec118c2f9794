//! `WasmPlugin` and `TrafficExtension`: which filters stand where. What they do is asked for by name.

use std::cmp::Reverse;

use ironsail_api::istio::extensions::{
    ExtensionCode, ExtensionPhase, PluginPhase, PluginType, TrafficExtension, TrafficSelector,
    WasmConfig, WasmPlugin, WorkloadMode,
};
use ironsail_api::{Kind, Meta, Resource};
use ironsail_model::config::Target;
use ironsail_model::{ProxyClass, Snapshot};
use ironsail_proto::envoy::config::core::v3::ExtensionConfigSource;
use ironsail_proto::envoy::config::listener::v3::{Filter, filter};
use ironsail_proto::envoy::extensions::filters::http::lua::v3::Lua;
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpFilter, http_filter,
};
use ironsail_proto::from_json;
use serde_json::json;

use super::place::{self, Phase};
use crate::filter::{http, wire};
use crate::patch::Context;
use crate::{Key, tls};

pub(super) const HTTP_WASM: &str = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm";
pub(super) const NETWORK_WASM: &str =
    "type.googleapis.com/envoy.extensions.filters.network.wasm.v3.Wasm";
/// What an agent puts in the place of a module that it could not get.
const HTTP_RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";
const NETWORK_RBAC: &str = "type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC";

/// All plugins of one class of proxies, in the order in which traffic passes them.
#[derive(Debug, Default)]
pub(crate) struct Plugins<'a>(pub(super) Vec<Plugin<'a>>);

#[derive(Debug)]
pub(super) struct Plugin<'a> {
    pub(super) kind: Kind,
    pub(super) meta: &'a Meta,
    digest: u64,
    phase: Phase,
    priority: i32,
    traffic: &'a [TrafficSelector],
    pub(super) code: Code<'a>,
}

#[derive(Debug)]
pub(super) enum Code<'a> {
    Wasm(Box<WasmConfig>),
    Lua(&'a str),
}

impl<'a> Plugins<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot, class: &ProxyClass) -> Self {
        let (root, target) = (snapshot.root_namespace(), Target::from(class));
        let config = &snapshot.config;
        let wasm = config.wasm_plugins.for_workload(root, target);
        let mut all: Vec<Plugin<'a>> = wasm.into_iter().map(|one| Plugin::wasm(one)).collect();
        let both = config.traffic_extensions.for_workload(root, target);
        all.extend(both.into_iter().filter_map(|one| Plugin::extension(one)));
        // Stable: those of the root namespace first, then the oldest.
        all.sort_by_key(|one| (one.phase, Reverse(one.priority)));
        Self(all)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn write(&self, key: Key) -> Key {
        key.each(&self.0, |key, plugin| key.number(plugin.kind as u64).digest(plugin.digest))
    }

    pub(crate) fn http(&self, context: Context, port: Option<u32>, filters: &mut Vec<HttpFilter>) {
        for phase in [Phase::Authentication, Phase::Authorization, Phase::Statistics, Phase::End] {
            let of = |one: &&Plugin<'_>| one.phase == phase && one.sees(context, port);
            let new: Vec<HttpFilter> =
                self.0.iter().filter(of).filter_map(Plugin::http_filter).collect();
            let at = place::in_http(filters, phase);
            filters.splice(at..at, new);
        }
    }

    pub(crate) fn network(&self, context: Context, port: Option<u32>, filters: &mut Vec<Filter>) {
        for phase in [Phase::Authentication, Phase::Authorization, Phase::Statistics, Phase::End] {
            let of = |one: &&Plugin<'_>| one.phase == phase && one.sees(context, port);
            let new: Vec<Filter> =
                self.0.iter().filter(of).filter_map(Plugin::network_filter).collect();
            let at = place::in_network(filters, phase);
            filters.splice(at..at, new);
        }
    }
}

impl<'a> Plugin<'a> {
    fn wasm(object: &'a Resource<WasmPlugin>) -> Self {
        let spec = &object.spec;
        let phase = match spec.phase {
            PluginPhase::Authn => Phase::Authentication,
            PluginPhase::Authz => Phase::Authorization,
            PluginPhase::Stats => Phase::Statistics,
            PluginPhase::Unspecified => Phase::End,
        };
        let code = WasmConfig {
            url: spec.url.clone(),
            sha256: spec.sha256.clone(),
            image_pull_policy: spec.image_pull_policy,
            image_pull_secret: spec.image_pull_secret.clone(),
            verification_key: spec.verification_key.clone(),
            plugin_config: spec.plugin_config.clone(),
            plugin_name: spec.plugin_name.clone(),
            fail_strategy: spec.fail_strategy,
            vm_config: spec.vm_config.clone(),
            r#type: spec.r#type,
        };
        Self {
            kind: Kind::WasmPlugin,
            meta: &object.meta,
            digest: object.digest,
            phase,
            priority: spec.priority.unwrap_or_default(),
            traffic: &spec.r#match,
            code: Code::Wasm(Box::new(code)),
        }
    }

    fn extension(object: &'a Resource<TrafficExtension>) -> Option<Self> {
        let spec = &object.spec;
        let phase = match spec.phase {
            ExtensionPhase::Authn => Phase::Authentication,
            ExtensionPhase::Authz => Phase::Authorization,
            ExtensionPhase::Stats => Phase::Statistics,
            ExtensionPhase::Unspecified => Phase::End,
        };
        let code = match &spec.code {
            ExtensionCode::Unset => return None,
            ExtensionCode::Wasm(wasm) => Code::Wasm(Box::new(wasm.clone())),
            ExtensionCode::Lua(lua) => Code::Lua(&lua.inline_code),
        };
        Some(Self {
            kind: Kind::TrafficExtension,
            meta: &object.meta,
            digest: object.digest,
            phase,
            priority: spec.priority.unwrap_or_default(),
            traffic: &spec.r#match,
            code,
        })
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    /// As proxies ask for it.
    pub(super) fn name(&self) -> String {
        let kind = self.kind.name().to_lowercase();
        format!("extensions.istio.io/{kind}/{}.{}", self.meta.namespace, self.meta.name)
    }

    pub(super) fn is_network(&self) -> bool {
        matches!(&self.code, Code::Wasm(wasm) if wasm.r#type == PluginType::Network)
    }

    /// Whether the traffic of a side and port passes it.
    fn sees(&self, context: Context, port: Option<u32>) -> bool {
        let side = |mode: WorkloadMode| match mode {
            WorkloadMode::Undefined | WorkloadMode::ClientAndServer => true,
            WorkloadMode::Client => context != Context::Inbound,
            WorkloadMode::Server => context == Context::Inbound,
        };
        self.traffic.is_empty()
            || self.traffic.iter().any(|one| {
                let ports = one.ports.iter().map(|port| port.number);
                side(one.mode)
                    && (one.ports.is_empty() || ports.into_iter().any(|p| port == Some(p)))
            })
    }

    fn http_filter(&self) -> Option<HttpFilter> {
        match &self.code {
            Code::Lua(text) => {
                let config: Lua =
                    from_json(&json!({"default_source_code": {"inline_string": text}})).ok()?;
                Some(http::filter(&self.name(), &config))
            }
            Code::Wasm(_) if self.is_network() => None,
            Code::Wasm(_) => Some(HttpFilter {
                name: self.name(),
                config_type: Some(http_filter::ConfigType::ConfigDiscovery(source(&[
                    HTTP_WASM, HTTP_RBAC,
                ]))),
                ..Default::default()
            }),
        }
    }

    fn network_filter(&self) -> Option<Filter> {
        let of_network = self.is_network();
        of_network.then(|| Filter {
            name: self.name(),
            config_type: Some(filter::ConfigType::ConfigDiscovery(source(&[
                NETWORK_WASM,
                NETWORK_RBAC,
            ]))),
        })
    }
}

/// Traffic waits until the configuration has come.
fn source(types: &[&str]) -> ExtensionConfigSource {
    let mut ads = tls::ads();
    ads.initial_fetch_timeout = wire::never();
    ExtensionConfigSource {
        config_source: Some(ads),
        type_urls: types.iter().map(|&name| name.to_owned()).collect(),
        ..Default::default()
    }
}
