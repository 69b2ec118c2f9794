//! How a policy says which workloads it is about.

use std::collections::BTreeMap;

use crate::wire::message;

message! {
    /// Workloads by their labels; all of them must be there.
    pub struct WorkloadSelector {
        /// Labels that a workload must have.
        pub match_labels: BTreeMap<String, String> => max_keys(4096)
            .rule("wildcard not allowed in label key match", r#"self.all(key, !key.contains("*"))"#)
            .rule("key must not be empty", "self.all(key, key.size() != 0)")
            .each(|value| value.max_len(63)
                .rule("wildcard not allowed in label value match", r#"!self.contains("*")"#)),
    }

    /// The object that a policy is attached to.
    pub struct PolicyTargetReference {
        /// API group of the target.
        pub group: String => max_len(253)
            .pattern(r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
        /// Kind of the target.
        pub kind: String => required().min_len(1).max_len(63)
            .pattern(r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"),
        /// Name of the target.
        pub name: String => required().min_len(1).max_len(253),
        /// Must be empty: the target is in the policy's own namespace.
        pub namespace: String
            => rule("cross namespace referencing is not currently supported", "self.size() == 0"),
    }
}

impl PolicyTargetReference {
    /// The group as Kubernetes means it: `core` is the empty one.
    #[must_use]
    pub fn canonical_group(&self) -> &str {
        if self.group == "core" { "" } else { &self.group }
    }
}
