//! `ProxyConfig`: settings of single workloads that take effect when their pod starts.

use std::collections::BTreeMap;

use crate::istio::WorkloadSelector;
use crate::wire::message;

message! {
    /// Settings of proxies that take effect when the pod starts.
    pub struct ProxyConfig {
        /// Workloads that it is for; all of the namespace if left out.
        pub selector: Option<WorkloadSelector>,
        /// Worker threads; 0 is one a core.
        pub concurrency: Option<i32> => min(0),
        /// Environment of the proxy.
        pub environment_variables: BTreeMap<String, String> => each(|value| value.max_len(2048)),
        /// Image of the proxy.
        pub image: Option<ProxyImage>,
    }

    /// Image of the proxy.
    pub struct ProxyImage {
        /// default, debug or distroless.
        pub image_type: String,
    }
}
