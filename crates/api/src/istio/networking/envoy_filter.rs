//! `EnvoyFilter`: patches of what the control plane generates.

use std::collections::BTreeMap;

use super::LabelSelector;
use crate::istio::PolicyTargetReference;
use crate::wire::{Struct, choice, message, oneof};

message! {
    /// Patches of the generated Envoy configuration.
    pub struct EnvoyFilter => rule(
        "only one of targetRefs or workloadSelector can be set",
        "(has(self.workloadSelector) ? 1 : 0) + (has(self.targetRefs) ? 1 : 0) <= 1",
    ) {
        /// Workloads that are patched; all of the namespace if left out.
        pub workload_selector: Option<LabelSelector>,
        /// Objects whose proxies are patched.
        pub target_refs: Vec<PolicyTargetReference> => max_items(16),
        /// The patches, applied in order.
        pub config_patches: Vec<EnvoyConfigObjectPatch>,
        /// Lower goes first.
        pub priority: i32,
    }

    /// One patch.
    pub struct EnvoyConfigObjectPatch {
        /// Kind of object that is patched.
        pub apply_to: ApplyTo,
        /// Which of these objects.
        pub r#match: Option<EnvoyConfigObjectMatch>,
        /// What is done.
        pub patch: Option<Patch>,
    }

    /// Which objects a patch is for.
    pub struct EnvoyConfigObjectMatch => rule(
        "only support waypointMatch when context is WAYPOINT",
        r#"has(self.context) ? ((self.context == "WAYPOINT") ? has(self.waypoint) : !has(self.waypoint)) : !has(self.waypoint)"#,
    ) {
        /// Direction of traffic, or kind of proxy.
        pub context: PatchContext,
        /// Which proxies.
        pub proxy: Option<ProxyMatch>,
        /// Which object.
        pub object: ObjectMatch,
    }

    /// Proxies by what they say about themselves.
    pub struct ProxyMatch {
        /// Regular expression on the version.
        pub proxy_version: String,
        /// Node metadata that must be equal.
        pub metadata: BTreeMap<String, String>,
    }

    /// Which cluster.
    pub struct ClusterMatch {
        /// Port of the service.
        pub port_number: u32,
        /// Host of the service.
        pub service: String,
        /// Subset of the service.
        pub subset: String,
        /// Exact name of the cluster.
        pub name: String,
    }

    /// Which route configuration.
    pub struct RouteConfigurationMatch {
        /// Port of the service or gateway.
        pub port_number: u32,
        /// Name of the gateway's port.
        pub port_name: String,
        /// Gateway as namespace/name.
        pub gateway: String,
        /// Which virtual host in it.
        pub vhost: Option<VirtualHostMatch>,
        /// Exact name of the route configuration.
        pub name: String,
    }

    /// Which virtual host.
    pub struct VirtualHostMatch {
        /// Name of the virtual host: host:port.
        pub name: String,
        /// Which route in it.
        pub route: Option<RouteMatch>,
        /// A domain that the virtual host has.
        pub domain_name: String,
    }

    /// Which route.
    pub struct RouteMatch {
        /// Name of the route.
        pub name: String,
        /// What the route does.
        pub action: RouteAction,
    }

    /// Which listener.
    pub struct ListenerMatch {
        /// Port that it listens on.
        pub port_number: u32,
        /// Name of the gateway's port.
        pub port_name: String,
        /// Which filter chain in it.
        pub filter_chain: Option<FilterChainMatch>,
        /// Which listener filter in it.
        pub listener_filter: String,
        /// Exact name of the listener.
        pub name: String,
    }

    /// Which filter chain.
    pub struct FilterChainMatch {
        /// Name of the filter chain.
        pub name: String,
        /// Server name that it matches.
        pub sni: String,
        /// Transport protocol that it matches.
        pub transport_protocol: String,
        /// Application protocols that it matches, separated by commas.
        pub application_protocols: String,
        /// Which filter in it.
        pub filter: Option<FilterMatch>,
        /// Port of the destination that it matches.
        pub destination_port: u32,
        /// Name of the transport socket.
        pub transport_socket: String,
    }

    /// Which network filter.
    pub struct FilterMatch {
        /// Name of the filter.
        pub name: String,
        /// Which filter inside it.
        pub sub_filter: Option<SubFilterMatch>,
    }

    /// Which HTTP filter.
    pub struct SubFilterMatch {
        /// Name of the filter.
        pub name: String,
    }

    /// What in a waypoint.
    pub struct WaypointMatch {
        /// Port of the service.
        pub port_number: u32 => port(),
        /// Which filter.
        pub filter: Option<FilterMatch>,
        /// Which route.
        pub route: Option<WaypointRouteMatch>,
    }

    /// Which route in a waypoint.
    pub struct WaypointRouteMatch {
        /// Name of the route.
        pub name: String,
    }

    /// What is done.
    pub struct Patch {
        /// The operation.
        pub operation: Operation,
        /// The object, or part of one, that is put in.
        pub value: Option<Struct>,
        /// Where among the filters an added one goes.
        pub filter_class: FilterClass,
    }
}

oneof! {
    /// The object that a patch is for.
    pub enum ObjectMatch {
        /// A listener.
        Listener(ListenerMatch) = listener,
        /// A route configuration.
        RouteConfiguration(RouteConfigurationMatch) = route_configuration,
        /// A cluster.
        Cluster(ClusterMatch) = cluster,
        /// Something in a waypoint.
        Waypoint(WaypointMatch) = waypoint,
    }
}

choice! {
    /// Kind of object that is patched.
    pub enum ApplyTo {
        Invalid = "INVALID",
        Listener = "LISTENER",
        FilterChain = "FILTER_CHAIN",
        NetworkFilter = "NETWORK_FILTER",
        HttpFilter = "HTTP_FILTER",
        RouteConfiguration = "ROUTE_CONFIGURATION",
        VirtualHost = "VIRTUAL_HOST",
        HttpRoute = "HTTP_ROUTE",
        Cluster = "CLUSTER",
        ExtensionConfig = "EXTENSION_CONFIG",
        Bootstrap = "BOOTSTRAP",
        ListenerFilter = "LISTENER_FILTER",
    }

    /// Direction of traffic, or kind of proxy.
    pub enum PatchContext {
        Any = "ANY",
        SidecarInbound = "SIDECAR_INBOUND",
        SidecarOutbound = "SIDECAR_OUTBOUND",
        Gateway = "GATEWAY",
        Waypoint = "WAYPOINT",
    }

    /// What a route does.
    pub enum RouteAction {
        Any = "ANY",
        Route = "ROUTE",
        Redirect = "REDIRECT",
        DirectResponse = "DIRECT_RESPONSE",
    }

    /// What a patch does.
    pub enum Operation {
        Invalid = "INVALID",
        Merge = "MERGE",
        Add = "ADD",
        Remove = "REMOVE",
        InsertBefore = "INSERT_BEFORE",
        InsertAfter = "INSERT_AFTER",
        InsertFirst = "INSERT_FIRST",
        Replace = "REPLACE",
        MergeAndReplaceList = "MERGE_AND_REPLACE_LIST",
    }

    /// Where among the filters an added one goes.
    pub enum FilterClass {
        Unspecified = "UNSPECIFIED",
        Authn = "AUTHN",
        Authz = "AUTHZ",
        Stats = "STATS",
    }
}
