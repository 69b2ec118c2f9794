//! What there is once for the process: who the proxy is, its metrics, and the hooks of loading.

use std::ffi::{CStr, c_char};
use std::sync::{Arc, OnceLock};

use ironsail_telemetry::Peer;
use ironsail_telemetry::config::Local;
use ironsail_telemetry::peer;

use crate::abi::{Buffer, Level, Ours, Root, Theirs, guard, log};
use crate::{metrics, table};

/// What Envoy compares with its own version of this boundary.
const ABI: &CStr = c"v0.2.0";

/// The proxy itself.
pub(crate) struct Own {
    pub(crate) id: String,
    /// The header that tells peers.
    pub(crate) header: String,
    pub(crate) peer: Arc<Peer>,
}

static OWN: OnceLock<Own> = OnceLock::new();

/// The proxy itself; unknown until the bootstrap was read.
pub(crate) fn own() -> Option<&'static Own> {
    OWN.get()
}

/// A pointer for Envoy to keep where nothing needs to be kept: it only must not be null.
pub(crate) fn something() -> Ours {
    std::ptr::from_ref(&()).cast()
}

fn start(root: Root, config: &str) -> bool {
    let local: Local = match serde_json::from_str(config) {
        Ok(local) => local,
        Err(error) => {
            log(Level::Error, &format!("telemetry: the bootstrap's configuration: {error}"));
            return false;
        }
    };
    let peer = Arc::new(Peer::local(&local));
    let _ = OWN.set(Own { header: peer::header(&local), id: local.id.clone(), peer });
    metrics::prepare(&local.extra_labels);
    root.gauge("istio_build", &[("component", "proxy"), ("tag", &local.version)], 1);
    if !local.table.is_empty() {
        table::load(&local.table);
        if !root.watch(&local.table) {
            log(Level::Warn, "telemetry: the table of addresses is not watched");
        }
    }
    root.ready();
    log(Level::Info, "telemetry: ready");
    true
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_program_init() -> *const c_char {
    ABI.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_config_new(
    config: Theirs,
    _name: Buffer,
    text: Buffer,
) -> Ours {
    guard(std::ptr::null(), || {
        // SAFETY: Envoy passes its extension's configuration, which lives as long as the process.
        let root = unsafe { Root::new(config) };
        // SAFETY: the text is valid during the hook.
        let text = unsafe { text.text() }.unwrap_or_default();
        if start(root, text) { something() } else { std::ptr::null() }
    })
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_config_destroy(_config: Ours) {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_new(_config: Ours, _e: Theirs) -> Ours {
    something()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_destroy(_extension: Ours) {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_server_initialized(
    _extension: Theirs,
    _ours: Ours,
) {
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_worker_thread_initialized(
    _extension: Theirs,
    _ours: Ours,
) {
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_drain_started(
    _extension: Theirs,
    _ours: Ours,
) {
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_shutdown(
    _extension: Theirs,
    _ours: Ours,
    done: extern "C" fn(Theirs),
    context: Theirs,
) {
    done(context);
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_config_scheduled() {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_http_callout_done() {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_timer_fired() {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_file_changed(
    _config: Theirs,
    _ours: Ours,
    path: Buffer,
    _event: u32,
) {
    guard((), || {
        // SAFETY: the text is valid during the hook.
        if let Some(path) = unsafe { path.text() } {
            table::load(path);
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_admin_request() -> u32 {
    // No page is registered.
    404
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_cluster_add_or_update() {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_cluster_removal() {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_listener_add_or_update() {}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_bootstrap_extension_listener_removal() {}
