//! Group `extensions.istio.io`: code that proxies run in the path of traffic.

use super::security::ONE_TARGET;
use super::{PolicyTargetReference, WorkloadSelector};
use crate::wire::{Struct, choice, message, oneof};

message! {
    /// A WebAssembly module that proxies run.
    pub struct WasmPlugin => rule(ONE_TARGET.0, ONE_TARGET.1) {
        /// Workloads that it is for; all of the namespace if left out.
        pub selector: Option<WorkloadSelector>,
        /// Older form of `targetRefs`.
        pub target_ref: Option<PolicyTargetReference>,
        /// Objects that it is attached to.
        pub target_refs: Vec<PolicyTargetReference> => max_items(16),
        /// Where the module is: oci://, file://, http:// or https://.
        pub url: String => required().min_len(1).rule(URL_RULE.0, URL_RULE.1),
        /// SHA-256 of the module or image.
        pub sha256: String => pattern("(^$|^[a-f0-9]{64}$)"),
        /// When an image is pulled.
        pub image_pull_policy: PullPolicy,
        /// Secret for pulling.
        pub image_pull_secret: String => min_len(1).max_len(253),
        /// Not used.
        pub verification_key: String,
        /// Configuration of the module.
        pub plugin_config: Option<Struct>,
        /// Name of the module inside the file.
        pub plugin_name: String => min_len(1).max_len(256),
        /// Where among the filters it goes.
        pub phase: PluginPhase,
        /// Higher goes first within a phase.
        pub priority: Option<i32>,
        /// What happens to traffic when the module fails.
        pub fail_strategy: FailStrategy,
        /// The machine that runs it.
        pub vm_config: Option<VmConfig>,
        /// Which traffic it sees.
        pub r#match: Vec<TrafficSelector>,
        /// HTTP or network filter.
        pub r#type: PluginType,
    }

    /// The machine that runs a module.
    pub struct VmConfig {
        /// Environment of the module.
        pub env: Vec<EnvVar> => max_items(256).keyed_by("name"),
    }

    /// A variable of the environment.
    pub struct EnvVar => rule(
        "value may only be set when valueFrom is INLINE",
        r#"(has(self.valueFrom) ? self.valueFrom : "") != "HOST" || !has(self.value)"#,
    ) {
        /// Its name.
        pub name: String => required().min_len(1).max_len(256),
        /// Where its value comes from.
        pub value_from: EnvValueSource,
        /// Its value.
        pub value: String => max_len(2048),
    }

    /// Which traffic.
    pub struct TrafficSelector {
        /// Client, server or both.
        pub mode: WorkloadMode,
        /// Ports; all if left out.
        pub ports: Vec<PortSelector> => keyed_by("number"),
    }

    /// A port.
    pub struct PortSelector {
        /// Number of the port.
        pub number: u32 => required().min(1).max(65535),
    }

    /// Code that proxies run: a WebAssembly module or a Lua script.
    pub struct TrafficExtension
        => rule("only one of targetRefs or selector can be set",
            "(has(self.selector) ? 1 : 0) + (has(self.targetRefs) ? 1 : 0) <= 1")
        .rule("exactly one of wasm or lua must be set", "has(self.wasm) != has(self.lua)")
    {
        /// Workloads that it is for; all of the namespace if left out.
        pub selector: Option<WorkloadSelector>,
        /// Objects that it is attached to.
        pub target_refs: Vec<PolicyTargetReference> => max_items(16),
        /// Where among the filters it goes.
        pub phase: ExtensionPhase,
        /// Higher goes first within a phase.
        pub priority: Option<i32>,
        /// Which traffic it sees.
        pub r#match: Vec<TrafficSelector>,
        /// The code.
        pub code: ExtensionCode,
    }

    /// A WebAssembly module.
    pub struct WasmConfig {
        /// Where the module is: oci://, file://, http:// or https://.
        pub url: String => required().min_len(1)
            .rule("url must have schema one of [http, https, file, oci]",
                "isURL(self) ? (url(self).getScheme() in [\"\", \"http\", \"https\", \"file\", \"oci\"]) : (isURL(\"http://\" + self) &&\nurl(\"http://\" + self).getScheme() in [\"\", \"http\", \"https\", \"file\", \"oci\"])"),
        /// SHA-256 of the module or image.
        pub sha256: String => pattern("(^$|^[a-f0-9]{64}$)"),
        /// When an image is pulled.
        pub image_pull_policy: PullPolicy,
        /// Secret for pulling.
        pub image_pull_secret: String => min_len(1).max_len(253),
        /// Not used.
        pub verification_key: String,
        /// Configuration of the module.
        pub plugin_config: Option<Struct>,
        /// Name of the module inside the file.
        pub plugin_name: String => min_len(1).max_len(256),
        /// What happens to traffic when the module fails.
        pub fail_strategy: FailStrategy,
        /// The machine that runs it.
        pub vm_config: Option<VmConfig>,
        /// HTTP or network filter.
        pub r#type: PluginType,
    }

    /// A Lua script.
    pub struct LuaConfig {
        /// The script.
        pub inline_code: String => required().min_len(1).max_len(65536),
    }
}

const URL_RULE: (&str, &str) = (
    "url must have schema one of [http, https, file, oci]",
    "isURL(self) ? (url(self).getScheme() in [\"\", \"http\", \"https\", \"oci\", \"file\"]) : (isURL(\"http://\" + self) &&\nurl(\"http://\" + self).getScheme() in [\"\", \"http\", \"https\", \"oci\", \"file\"])",
);

oneof! {
    /// The code of an extension.
    pub enum ExtensionCode {
        /// A WebAssembly module.
        Wasm(WasmConfig) = wasm,
        /// A Lua script.
        Lua(LuaConfig) = lua,
    }
}

choice! {
    /// Where among the filters a plugin goes.
    pub enum PluginPhase {
        Unspecified = "UNSPECIFIED_PHASE",
        Authn = "AUTHN",
        Authz = "AUTHZ",
        Stats = "STATS",
    }

    /// Where among the filters an extension goes.
    pub enum ExtensionPhase {
        Unspecified = "UNSPECIFIED",
        Authn = "AUTHN",
        Authz = "AUTHZ",
        Stats = "STATS",
    }

    /// When an image is pulled.
    pub enum PullPolicy {
        Unspecified = "UNSPECIFIED_POLICY",
        IfNotPresent = "IfNotPresent",
        Always = "Always",
    }

    /// Where the value of a variable comes from.
    pub enum EnvValueSource {
        Inline = "INLINE",
        Host = "HOST",
    }

    /// HTTP or network filter.
    pub enum PluginType {
        Unspecified = "UNSPECIFIED_PLUGIN_TYPE",
        Http = "HTTP",
        Network = "NETWORK",
    }

    /// What happens to traffic when a module fails.
    pub enum FailStrategy {
        FailClose = "FAIL_CLOSE",
        FailOpen = "FAIL_OPEN",
        FailReload = "FAIL_RELOAD",
    }

    /// Client, server or both.
    pub enum WorkloadMode {
        Undefined = "UNDEFINED",
        Client = "CLIENT",
        Server = "SERVER",
        ClientAndServer = "CLIENT_AND_SERVER",
    }
}
