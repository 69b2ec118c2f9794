//! What a pod asks for that this node does not do, so that nobody is left guessing.
//!
//! In: a pod. Out: the paths of such fields; the sandbox tells them in one Event. Pods run all the same:
//! none of these changes what the program itself sees. What would is refused elsewhere.

use k8s_openapi::api::core::v1::{Container, Pod, SecurityContext};

/// Paths of fields that are not acted on. With CNI plugins, host ports are the plugins' business.
pub fn fields(pod: &Pod, cni: bool) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let mut found = Vec::new();
    if spec.runtime_class_name.is_some() {
        found.push("spec.runtimeClassName".to_owned());
    }
    if let Some(context) = &spec.security_context {
        let seccomp = context.seccomp_profile.as_ref().map(|p| p.type_.as_str());
        let armor = context.app_armor_profile.as_ref().map(|p| p.type_.as_str());
        profiles(&mut found, "spec.securityContext", seccomp, armor);
        if context.se_linux_options.is_some() {
            found.push("spec.securityContext.seLinuxOptions".to_owned());
        }
    }
    let lists = [
        ("initContainers", spec.init_containers.as_deref().unwrap_or_default()),
        ("containers", &spec.containers),
    ];
    for (list, containers) in lists {
        for (i, container) in containers.iter().enumerate() {
            let path = format!("spec.{list}[{i}]");
            of_container(&mut found, &path, container, cni || spec.host_network == Some(true));
        }
    }
    found
}

fn of_container(found: &mut Vec<String>, path: &str, container: &Container, host_ports: bool) {
    for (i, port) in container.ports.iter().flatten().enumerate() {
        if !host_ports && port.host_port.is_some_and(|p| p != 0) {
            found.push(format!("{path}.ports[{i}].hostPort"));
        }
    }
    for (i, mount) in container.volume_mounts.iter().flatten().enumerate() {
        if mount.mount_propagation.as_deref().is_some_and(|p| p != "None") {
            found.push(format!("{path}.volumeMounts[{i}].mountPropagation"));
        }
    }
    if let Some(context) = &container.security_context {
        of_context(found, &format!("{path}.securityContext"), context);
    }
}

fn of_context(found: &mut Vec<String>, path: &str, context: &SecurityContext) {
    let seccomp = context.seccomp_profile.as_ref().map(|p| p.type_.as_str());
    let armor = context.app_armor_profile.as_ref().map(|p| p.type_.as_str());
    profiles(found, path, seccomp, armor);
    if context.se_linux_options.is_some() {
        found.push(format!("{path}.seLinuxOptions"));
    }
}

/// The runtime's default and no profile are the same here; only a profile of one's own is missed.
fn profiles(found: &mut Vec<String>, path: &str, seccomp: Option<&str>, armor: Option<&str>) {
    for (field, profile) in [("seccompProfile", seccomp), ("appArmorProfile", armor)] {
        if profile == Some("Localhost") {
            found.push(format!("{path}.{field}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_acted_on_is_named() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "runtimeClassName": "gvisor",
            "containers": [{"name": "a",
                "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}],
                "volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}],
                "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}}}]}}))
        .unwrap();
        let common = [
            "spec.containers[0].volumeMounts[0].mountPropagation",
            "spec.containers[0].securityContext.appArmorProfile",
        ];
        assert_eq!(
            fields(&pod, false),
            [&["spec.runtimeClassName", "spec.containers[0].ports[1].hostPort"][..], &common]
                .concat()
        );
        assert_eq!(fields(&pod, true), [&["spec.runtimeClassName"][..], &common].concat());
    }

    #[test]
    fn an_ordinary_pod_asks_for_nothing_unusual() {
        let pod: Pod = serde_json::from_value(
            json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}}),
        )
        .unwrap();
        assert!(fields(&pod, false).is_empty());
    }
}
