//! Envoy's side of the boundary: the functions it exports to modules, behind safe wrappers.
//!
//! Pointers from Envoy are valid for the call in which Envoy hands them over, and texts until the next
//! call that changes their owner: so wrappers take handles that do not outlive the hook, and callers
//! copy what they keep.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A text on its way through the boundary.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    pub(crate) pointer: *const u8,
    pub(crate) length: usize,
}

impl Buffer {
    pub(crate) const EMPTY: Self = Self { pointer: std::ptr::null(), length: 0 };

    pub(crate) fn of(text: &str) -> Self {
        Self { pointer: text.as_ptr(), length: text.len() }
    }

    /// What Envoy wrote; texts that are not UTF-8 count as absent.
    ///
    /// # Safety
    /// The buffer must come from Envoy and still be valid for `'a`.
    pub(crate) unsafe fn text<'a>(self) -> Option<&'a str> {
        if self.pointer.is_null() {
            return Some("");
        }
        // SAFETY: by the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(self.pointer, self.length) };
        std::str::from_utf8(bytes).ok()
    }
}

/// A pointer of Envoy's.
pub(crate) type Theirs = *mut c_void;
/// A pointer of ours that Envoy keeps.
pub(crate) type Ours = *const c_void;

/// Attributes by Envoy's numbers.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Attribute {
    ResponseGrpcStatus = 18,
    SourceAddress = 24,
    ConnectionId = 28,
    ConnectionMtls = 29,
    LocalUriSan = 36,
    PeerUriSan = 37,
    UpstreamAddress = 41,
    UpstreamLocalUriSan = 48,
    UpstreamPeerUriSan = 49,
    ClusterName = 57,
    RouteName = 61,
}

/// Where metadata lies, by Envoy's numbers.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Source {
    Cluster = 2,
    Host = 3,
}

/// Which headers, by Envoy's numbers.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Headers {
    Request = 0,
    Response = 2,
}

#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Level {
    Info = 2,
    Warn = 3,
    Error = 4,
}

unsafe extern "C" {
    fn envoy_dynamic_module_callback_log(level: u32, message: Buffer);
    fn envoy_dynamic_module_callback_http_get_header(
        f: Theirs,
        kind: u32,
        key: Buffer,
        out: *mut Buffer,
        index: usize,
        total: *mut usize,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_set_header(
        f: Theirs,
        kind: u32,
        key: Buffer,
        value: Buffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_get_metadata_string(
        f: Theirs,
        source: u32,
        namespace: Buffer,
        key: Buffer,
        out: *mut Buffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_get_metadata_bool(
        f: Theirs,
        source: u32,
        namespace: Buffer,
        key: Buffer,
        out: *mut bool,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_get_filter_state_typed(
        f: Theirs,
        key: Buffer,
        out: *mut Buffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_filter_get_attribute_string(
        f: Theirs,
        attribute: u32,
        out: *mut Buffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_filter_get_attribute_int(
        f: Theirs,
        attribute: u32,
        out: *mut u64,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_filter_get_attribute_bool(
        f: Theirs,
        attribute: u32,
        out: *mut bool,
    ) -> bool;
    fn envoy_dynamic_module_callback_access_logger_get_response_code(l: Theirs) -> u32;
    fn envoy_dynamic_module_callback_access_logger_get_response_flags(l: Theirs) -> u64;
    fn envoy_dynamic_module_callback_access_logger_get_connection_id(l: Theirs) -> u64;
    fn envoy_dynamic_module_callback_access_logger_is_mtls(l: Theirs) -> bool;
    fn envoy_dynamic_module_callback_access_logger_get_timing_info(l: Theirs, out: *mut [i64; 8]);
    fn envoy_dynamic_module_callback_access_logger_get_bytes_info(l: Theirs, out: *mut [u64; 4]);
    fn envoy_dynamic_module_callback_access_logger_get_downstream_wire_bytes(
        l: Theirs,
        out: *mut [u64; 2],
    );
    fn envoy_dynamic_module_callback_access_logger_get_header_value(
        l: Theirs,
        kind: u32,
        key: Buffer,
        out: *mut Buffer,
        index: usize,
        total: *mut usize,
    ) -> bool;
    fn envoy_dynamic_module_callback_access_logger_get_attribute_string(
        l: Theirs,
        attribute: u32,
        out: *mut Buffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_access_logger_get_attribute_int(
        l: Theirs,
        attribute: u32,
        out: *mut u64,
    ) -> bool;
    fn envoy_dynamic_module_callback_access_logger_get_attribute_bool(
        l: Theirs,
        attribute: u32,
        out: *mut bool,
    ) -> bool;
    fn envoy_dynamic_module_callback_access_logger_get_upstream_cluster(
        l: Theirs,
        out: *mut Buffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_bootstrap_extension_config_define_gauge(
        c: Theirs,
        name: Buffer,
        labels: *const Buffer,
        count: usize,
        id: *mut usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_bootstrap_extension_config_set_gauge(
        c: Theirs,
        id: usize,
        values: *const Buffer,
        count: usize,
        to: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_config_define_counter(
        c: Theirs,
        name: Buffer,
        labels: *const Buffer,
        count: usize,
        id: *mut usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_config_define_histogram(
        c: Theirs,
        name: Buffer,
        labels: *const Buffer,
        count: usize,
        id: *mut usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_config_resolve_counter_vec(
        c: Theirs,
        id: usize,
        values: *const Buffer,
        count: usize,
        out: *mut Theirs,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_config_resolve_histogram_vec(
        c: Theirs,
        id: usize,
        values: *const Buffer,
        count: usize,
        out: *mut Theirs,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_metric_counter_add(metric: Theirs, by: u64);
    fn envoy_dynamic_module_callback_cluster_metric_histogram_record(metric: Theirs, value: u64);
    fn envoy_dynamic_module_callback_cluster_pre_init_complete(cluster: Theirs);
    fn envoy_dynamic_module_callback_bootstrap_extension_config_signal_init_complete(c: Theirs);
    fn envoy_dynamic_module_callback_bootstrap_extension_file_watcher_add_watch(
        c: Theirs,
        path: Buffer,
        events: u32,
    ) -> bool;
}

/// A line in Envoy's own log.
pub(crate) fn log(level: Level, message: &str) {
    // SAFETY: Envoy copies the text before it returns.
    unsafe { envoy_dynamic_module_callback_log(level as u32, Buffer::of(message)) }
}

/// Runs the body of a hook; what goes wrong in it ends here.
pub(crate) fn guard<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(fault) => {
            let text = fault.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| fault.downcast_ref::<String>().cloned());
            log(Level::Error, &format!("telemetry: a fault: {}", text.unwrap_or_default()));
            otherwise
        }
    }
}

/// Reads a text that Envoy hands out by pointer.
fn read<'a>(call: impl FnOnce(*mut Buffer) -> bool) -> Option<&'a str> {
    let mut out = Buffer::EMPTY;
    match call(&mut out) {
        // SAFETY: Envoy wrote it just now, and it lives as long as the handle's hook.
        true => unsafe { out.text() },
        false => None,
    }
}

/// One stream, as an HTTP filter sees it.
#[derive(Clone, Copy)]
pub(crate) struct Stream<'a>(Theirs, std::marker::PhantomData<&'a ()>);

impl<'a> Stream<'a> {
    /// # Safety
    /// `pointer` is what Envoy passed to the hook of an HTTP filter that is running.
    pub(crate) unsafe fn new(pointer: Theirs) -> Self {
        Self(pointer, std::marker::PhantomData)
    }

    pub(crate) fn header(self, headers: Headers, name: &str) -> Option<&'a str> {
        let (key, mut total) = (Buffer::of(name), 0);
        // SAFETY: the handle is valid during the hook; `key` outlives the call.
        read(|out| unsafe {
            envoy_dynamic_module_callback_http_get_header(
                self.0,
                headers as u32,
                key,
                out,
                0,
                &mut total,
            )
        })
    }

    /// Sets a header, or removes it.
    pub(crate) fn set_header(self, headers: Headers, name: &str, value: Option<&str>) {
        let value = value.map_or(Buffer::EMPTY, Buffer::of);
        // SAFETY: the handle is valid during the hook; Envoy copies both texts.
        unsafe {
            envoy_dynamic_module_callback_http_set_header(
                self.0,
                headers as u32,
                Buffer::of(name),
                value,
            );
        }
    }

    pub(crate) fn metadata(self, source: Source, namespace: &str, key: &str) -> Option<&'a str> {
        let (namespace, key) = (Buffer::of(namespace), Buffer::of(key));
        // SAFETY: the handle is valid during the hook; the texts outlive the call.
        read(|out| unsafe {
            envoy_dynamic_module_callback_http_get_metadata_string(
                self.0,
                source as u32,
                namespace,
                key,
                out,
            )
        })
    }

    pub(crate) fn metadata_flag(self, source: Source, namespace: &str, key: &str) -> bool {
        let (namespace, key, mut out) = (Buffer::of(namespace), Buffer::of(key), false);
        // SAFETY: the handle is valid during the hook; `out` outlives the call.
        let there = unsafe {
            envoy_dynamic_module_callback_http_get_metadata_bool(
                self.0,
                source as u32,
                namespace,
                key,
                &mut out,
            )
        };
        there && out
    }

    pub(crate) fn filter_state(self, key: &str) -> Option<&'a str> {
        let key = Buffer::of(key);
        // SAFETY: the handle is valid during the hook; the text outlives the call.
        read(|out| unsafe {
            envoy_dynamic_module_callback_http_get_filter_state_typed(self.0, key, out)
        })
    }

    pub(crate) fn attribute(self, attribute: Attribute) -> Option<&'a str> {
        // SAFETY: the handle is valid during the hook.
        read(|out| unsafe {
            envoy_dynamic_module_callback_http_filter_get_attribute_string(
                self.0,
                attribute as u32,
                out,
            )
        })
    }

    pub(crate) fn number(self, attribute: Attribute) -> Option<u64> {
        let mut out = 0;
        // SAFETY: the handle is valid during the hook; `out` outlives the call.
        let there = unsafe {
            envoy_dynamic_module_callback_http_filter_get_attribute_int(
                self.0,
                attribute as u32,
                &mut out,
            )
        };
        there.then_some(out)
    }

    pub(crate) fn flag(self, attribute: Attribute) -> bool {
        let mut out = false;
        // SAFETY: the handle is valid during the hook; `out` outlives the call.
        let there = unsafe {
            envoy_dynamic_module_callback_http_filter_get_attribute_bool(
                self.0,
                attribute as u32,
                &mut out,
            )
        };
        there && out
    }
}

/// One event, as an access logger sees it.
#[derive(Clone, Copy)]
pub(crate) struct Event<'a>(Theirs, std::marker::PhantomData<&'a ()>);

impl<'a> Event<'a> {
    /// # Safety
    /// `pointer` is what Envoy passed to the hook of an access logger that is running.
    pub(crate) unsafe fn new(pointer: Theirs) -> Self {
        Self(pointer, std::marker::PhantomData)
    }

    pub(crate) fn response_code(self) -> u32 {
        // SAFETY: the handle is valid during the hook.
        unsafe { envoy_dynamic_module_callback_access_logger_get_response_code(self.0) }
    }

    pub(crate) fn response_flags(self) -> u64 {
        // SAFETY: the handle is valid during the hook.
        unsafe { envoy_dynamic_module_callback_access_logger_get_response_flags(self.0) }
    }

    pub(crate) fn connection(self) -> u64 {
        // SAFETY: the handle is valid during the hook.
        unsafe { envoy_dynamic_module_callback_access_logger_get_connection_id(self.0) }
    }

    pub(crate) fn is_mutual_tls(self) -> bool {
        // SAFETY: the handle is valid during the hook.
        unsafe { envoy_dynamic_module_callback_access_logger_is_mtls(self.0) }
    }

    /// From the start of the request to its end; none if it did not end.
    pub(crate) fn duration_ns(self) -> Option<u64> {
        let mut out = [-1; 8];
        // SAFETY: the handle is valid during the hook; the array has the layout of Envoy's struct.
        unsafe { envoy_dynamic_module_callback_access_logger_get_timing_info(self.0, &mut out) };
        u64::try_from(out[1]).ok()
    }

    /// Payload received and sent.
    pub(crate) fn payload(self) -> (u64, u64) {
        let mut out = [0; 4];
        // SAFETY: the handle is valid during the hook; the array has the layout of Envoy's struct.
        unsafe { envoy_dynamic_module_callback_access_logger_get_bytes_info(self.0, &mut out) };
        (out[0], out[1])
    }

    /// Bytes received from and sent to the client, headers and all.
    pub(crate) fn wire(self) -> (u64, u64) {
        let mut out = [0; 2];
        // SAFETY: the handle is valid during the hook; the array has the layout of Envoy's struct.
        unsafe {
            envoy_dynamic_module_callback_access_logger_get_downstream_wire_bytes(self.0, &mut out);
        }
        (out[0], out[1])
    }

    pub(crate) fn header(self, headers: Headers, name: &str) -> Option<&'a str> {
        let (key, mut total) = (Buffer::of(name), 0);
        // SAFETY: the handle is valid during the hook; `key` outlives the call.
        read(|out| unsafe {
            envoy_dynamic_module_callback_access_logger_get_header_value(
                self.0,
                headers as u32,
                key,
                out,
                0,
                &mut total,
            )
        })
    }

    pub(crate) fn attribute(self, attribute: Attribute) -> Option<&'a str> {
        self.attribute_by(attribute as u32)
    }

    pub(crate) fn attribute_by(self, number: u32) -> Option<&'a str> {
        // SAFETY: the handle is valid during the hook.
        read(|out| unsafe {
            envoy_dynamic_module_callback_access_logger_get_attribute_string(self.0, number, out)
        })
    }

    pub(crate) fn number_by(self, number: u32) -> Option<u64> {
        let mut out = 0;
        // SAFETY: the handle is valid during the hook; `out` outlives the call.
        let there = unsafe {
            envoy_dynamic_module_callback_access_logger_get_attribute_int(self.0, number, &mut out)
        };
        there.then_some(out)
    }

    pub(crate) fn flag_by(self, number: u32) -> Option<bool> {
        let mut out = false;
        // SAFETY: the handle is valid during the hook; `out` outlives the call.
        let there = unsafe {
            envoy_dynamic_module_callback_access_logger_get_attribute_bool(self.0, number, &mut out)
        };
        there.then_some(out)
    }

    pub(crate) fn cluster(self) -> Option<&'a str> {
        // SAFETY: the handle is valid during the hook.
        read(|out| unsafe {
            envoy_dynamic_module_callback_access_logger_get_upstream_cluster(self.0, out)
        })
    }
}

/// The kinds of metrics that are counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Counter,
    Histogram,
}

/// The configuration of the cluster that owns the metrics. It is a cluster without hosts that the
/// bootstrap names: of all that a module can be, only a cluster may keep hold of a metric with its
/// labels, and need not name them for each request.
#[derive(Clone, Copy)]
pub(crate) struct Owner(Theirs);

// SAFETY: it lives from its hook to the hook of its end. What changes its tables is done under a lock
// of `metrics`, which all of the module's calls go through.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

/// A metric with all its labels. Valid as long as its owner.
#[derive(Clone, Copy)]
pub(crate) struct Series {
    kind: Kind,
    pointer: Theirs,
}

impl Owner {
    /// # Safety
    /// `pointer` is what Envoy passed to the hook of a cluster's configuration.
    pub(crate) unsafe fn new(pointer: Theirs) -> Self {
        Self(pointer)
    }

    pub(crate) fn define(self, kind: Kind, name: &str, labels: &[&str]) -> Option<usize> {
        let labels: Vec<Buffer> = labels.iter().map(|label| Buffer::of(label)).collect();
        let mut id = 0;
        let call = match kind {
            Kind::Counter => envoy_dynamic_module_callback_cluster_config_define_counter,
            Kind::Histogram => envoy_dynamic_module_callback_cluster_config_define_histogram,
        };
        // SAFETY: called in the hook that Envoy passed the pointer to; Envoy copies the texts.
        let result =
            unsafe { call(self.0, Buffer::of(name), labels.as_ptr(), labels.len(), &mut id) };
        (result == 0).then_some(id)
    }

    /// The series of a metric with these values.
    pub(crate) fn resolve(self, kind: Kind, id: usize, values: &[Buffer]) -> Option<Series> {
        let mut pointer = std::ptr::null_mut();
        let call = match kind {
            Kind::Counter => envoy_dynamic_module_callback_cluster_config_resolve_counter_vec,
            Kind::Histogram => envoy_dynamic_module_callback_cluster_config_resolve_histogram_vec,
        };
        // SAFETY: the owner lives; the values outlive the call, and Envoy copies them.
        let result = unsafe { call(self.0, id, values.as_ptr(), values.len(), &mut pointer) };
        (result == 0 && !pointer.is_null()).then_some(Series { kind, pointer })
    }
}

impl Series {
    /// Adds to a counter, records in a histogram.
    ///
    /// # Safety
    /// The owner that gave it still lives.
    pub(crate) unsafe fn count(self, by: u64) {
        // SAFETY: by the caller's promise; Envoy lets any of its threads count.
        unsafe {
            match self.kind {
                Kind::Counter => {
                    envoy_dynamic_module_callback_cluster_metric_counter_add(self.pointer, by);
                }
                Kind::Histogram => {
                    envoy_dynamic_module_callback_cluster_metric_histogram_record(self.pointer, by);
                }
            }
        }
    }
}

/// A cluster that has no hosts is ready at once.
pub(crate) fn cluster_is_ready(cluster: Theirs) {
    // SAFETY: called in the hook that Envoy passed the pointer to.
    unsafe { envoy_dynamic_module_callback_cluster_pre_init_complete(cluster) }
}

/// The configuration of the bootstrap extension, which lives as long as the process.
#[derive(Clone, Copy)]
pub(crate) struct Root(Theirs);

impl Root {
    /// # Safety
    /// `pointer` is what Envoy passed to the bootstrap extension's configuration hook.
    pub(crate) unsafe fn new(pointer: Theirs) -> Self {
        Self(pointer)
    }

    /// A gauge that keeps its value.
    pub(crate) fn gauge(self, name: &str, labels: &[(&str, &str)], value: u64) -> bool {
        let names: Vec<Buffer> = labels.iter().map(|(name, _)| Buffer::of(name)).collect();
        let values: Vec<Buffer> = labels.iter().map(|(_, value)| Buffer::of(value)).collect();
        let (mut id, count) = (0, labels.len());
        // SAFETY: called in the hook that Envoy passed the pointer to; Envoy copies the texts.
        unsafe {
            envoy_dynamic_module_callback_bootstrap_extension_config_define_gauge(
                self.0,
                Buffer::of(name),
                names.as_ptr(),
                count,
                &mut id,
            ) == 0
                && envoy_dynamic_module_callback_bootstrap_extension_config_set_gauge(
                    self.0,
                    id,
                    values.as_ptr(),
                    count,
                    value,
                ) == 0
        }
    }

    /// Envoy opens no listener before this.
    pub(crate) fn ready(self) {
        // SAFETY: called in the hook that Envoy passed the pointer to.
        unsafe {
            envoy_dynamic_module_callback_bootstrap_extension_config_signal_init_complete(self.0);
        }
    }

    /// Asks to be told when a file is replaced or written.
    pub(crate) fn watch(self, path: &str) -> bool {
        // SAFETY: called in the hook that Envoy passed the pointer to; Envoy copies the text.
        unsafe {
            envoy_dynamic_module_callback_bootstrap_extension_file_watcher_add_watch(
                self.0,
                Buffer::of(path),
                3,
            )
        }
    }
}
