//! The cluster that owns the metrics: it has no hosts, and nobody sends anything to it.

use crate::abi::{Buffer, Ours, Owner, Theirs, cluster_is_ready, guard};
use crate::bootstrap::something;
use crate::metrics;

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_cluster_config_new(
    config: Theirs,
    _name: Buffer,
    _text: Buffer,
) -> Ours {
    guard(std::ptr::null(), || {
        // SAFETY: Envoy passes the cluster's configuration, and says when it ends.
        metrics::start(unsafe { Owner::new(config) });
        something()
    })
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_cluster_config_destroy(_config: Ours) {
    guard((), metrics::stop);
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_cluster_new(_config: Ours, _cluster: Theirs) -> Ours {
    something()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_cluster_init(cluster: Theirs, _ours: Ours) {
    guard((), || cluster_is_ready(cluster));
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_cluster_destroy(_ours: Ours) {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_cluster_lb_new(_ours: Ours, _balancer: Theirs) -> Ours {
    something()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_cluster_lb_destroy(_ours: Ours) {}

/// No host is ever chosen.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_cluster_lb_choose_host() -> Theirs {
    std::ptr::null_mut()
}
