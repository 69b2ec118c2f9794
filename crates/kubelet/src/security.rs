//! Who a container runs as and what it may do: pod and container security context as one.
//!
//! In come the two contexts and the image's user; out goes a [`Security`] with nothing left open.
//! What Kubernetes would refuse at start (a root image under runAsNonRoot) is refused here.

use std::path::Path;

use ironsail_sys::capability;
use ironsail_sys::userns::{IdKind, IdMap};
use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, SecurityContext};

/// What applies to one container, nothing open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Security {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
    /// Names without `CAP_`, or `ALL`; changes to the runtime's default set.
    pub add: Vec<String>,
    pub drop: Vec<String>,
    pub privileged: bool,
    pub read_only_root: bool,
    pub no_new_privileges: bool,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error(
        "container has runAsNonRoot and image will run as root (pod: \"{pod}\", container: {container})"
    )]
    WouldBeRoot { pod: String, container: String },
    #[error(
        "container's runAsUser breaks non-root policy (pod: \"{pod}\", container: {container})"
    )]
    RunAsRoot { pod: String, container: String },
    #[error("capability {0:?} is not known")]
    Capability(String),
    #[error("user {0:?} of the image is not in its /etc/passwd")]
    User(String),
    #[error(
        "{kind} {id} is beyond the last one that podlet's user namespace has ({last}): give the user who runs podlet more ids in {file}, or run podlet as root"
    )]
    NotMapped { kind: IdKind, id: u32, last: u32, file: &'static str },
}

/// The users and groups there are: fewer than Kubernetes has where podlet was started by an
/// ordinary user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    pub users: IdMap,
    pub groups: IdMap,
}

impl Ids {
    pub fn of_process() -> Self {
        let [users, groups] = [IdKind::User, IdKind::Group].map(IdMap::of_process);
        Self { users, groups }
    }

    /// Says which id of a container does not exist.
    pub fn check(&self, security: &Security) -> Result<(), Error> {
        let users = [security.uid].into_iter().map(|id| (IdKind::User, &self.users, id));
        let groups = std::iter::once(security.gid).chain(security.groups.iter().copied());
        let groups = groups.map(|id| (IdKind::Group, &self.groups, id));
        match users.chain(groups).find(|(_, map, id)| !map.contains(*id)) {
            None => Ok(()),
            Some((kind, map, id)) => {
                Err(Error::NotMapped { kind, id, last: map.last(), file: kind.file() })
            }
        }
    }
}

/// The user an image names, found in the passwd file of its root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageUser {
    pub uid: u32,
    pub gid: u32,
}

impl ImageUser {
    /// `passwd` and `group` are the texts of those files, empty where there are none.
    pub fn parse(user: Option<&str>, passwd: &str, group: &str) -> Result<Self, Error> {
        let Some(user) = user.filter(|u| !u.is_empty()) else {
            return Ok(Self::default());
        };
        let unknown = || Error::User(user.to_owned());
        let (name, group_name) = match user.split_once(':') {
            Some((name, group)) => (name, Some(group)),
            None => (user, None),
        };
        let line = passwd
            .lines()
            .map(|l| l.split(':').collect::<Vec<_>>())
            .find(|f| f.len() > 3 && (f[0] == name || f[2] == name));
        let (uid, own_gid) = match (name.parse::<u32>(), &line) {
            (Ok(uid), Some(fields)) => (uid, fields[3].parse().unwrap_or(0)),
            (Ok(uid), None) => (uid, 0),
            (Err(_), Some(fields)) => (
                fields[2].parse().map_err(|_| unknown())?,
                fields[3].parse().map_err(|_| unknown())?,
            ),
            (Err(_), None) => return Err(unknown()),
        };
        let gid = match group_name {
            None => own_gid,
            Some(name) => match name.parse() {
                Ok(gid) => gid,
                Err(_) => group
                    .lines()
                    .map(|l| l.split(':').collect::<Vec<_>>())
                    .find(|f| f.len() > 2 && f[0] == name)
                    .and_then(|f| f[2].parse().ok())
                    .ok_or_else(unknown)?,
            },
        };
        Ok(Self { uid, gid })
    }
}

/// Puts the container's context over the pod's, and both over the image's user.
pub fn merge(pod: &Pod, container: &Container, image: ImageUser) -> Result<Security, Error> {
    let empty_pod = PodSecurityContext::default();
    let empty = SecurityContext::default();
    let p = pod.spec.as_ref().and_then(|s| s.security_context.as_ref()).unwrap_or(&empty_pod);
    let c = container.security_context.as_ref().unwrap_or(&empty);
    let asked_user = c.run_as_user.or(p.run_as_user);
    let uid = asked_user.map_or(image.uid, to_id);
    // A group is never inherited from the image once the user is named anew: such a user belongs
    // to group 0 unless the manifest says otherwise.
    let gid = match c.run_as_group.or(p.run_as_group) {
        Some(gid) => to_id(gid),
        None if asked_user.is_some_and(|u| to_id(u) != image.uid) => 0,
        None => image.gid,
    };
    if c.run_as_non_root.or(p.run_as_non_root) == Some(true) && uid == 0 {
        let meta = &pod.metadata;
        let name = format!(
            "{}_{}({})",
            meta.name.as_deref().unwrap_or_default(),
            meta.namespace.as_deref().unwrap_or_default(),
            meta.uid.as_deref().unwrap_or_default()
        );
        let container = container.name.clone();
        return Err(match asked_user {
            Some(_) => Error::RunAsRoot { pod: name, container },
            None => Error::WouldBeRoot { pod: name, container },
        });
    }
    let mut groups: Vec<u32> = p.supplemental_groups.iter().flatten().map(|g| to_id(*g)).collect();
    groups.extend(p.fs_group.map(to_id));
    groups.sort_unstable();
    groups.dedup();
    let privileged = c.privileged == Some(true);
    let empty = Vec::new();
    let named = c.capabilities.as_ref();
    let names = |list: Option<&Vec<String>>| -> Result<Vec<String>, Error> {
        list.unwrap_or(&empty).iter().map(|n| canonical(n)).collect()
    };
    let add = names(named.and_then(|c| c.add.as_ref()))?;
    let drop = names(named.and_then(|c| c.drop.as_ref()))?;
    Ok(Security {
        uid,
        gid,
        groups,
        privileged,
        read_only_root: c.read_only_root_filesystem == Some(true),
        no_new_privileges: c.allow_privilege_escalation == Some(false)
            && !privileged
            && !add.iter().any(|c| c == "SYS_ADMIN"),
        add,
        drop,
    })
}

fn canonical(name: &str) -> Result<String, Error> {
    let upper = name.to_ascii_uppercase();
    let bare = upper.strip_prefix("CAP_").unwrap_or(&upper);
    if bare == "ALL" || capability::NAMES.contains(&bare) {
        Ok(bare.to_owned())
    } else {
        Err(Error::Capability(name.to_owned()))
    }
}

fn to_id(id: i64) -> u32 {
    u32::try_from(id).unwrap_or(0)
}

/// The group files are given to, if the pod asks for one.
pub fn fs_group(pod: &Pod) -> Option<u32> {
    pod.spec.as_ref()?.security_context.as_ref()?.fs_group.map(to_id)
}

/// The kernel takes no group above this one for `ping_group_range`.
const MAX_PING_GROUP: u32 = 2_147_483_647;

/// The sysctls of a pod's network namespace: those asked for over the one that container engines
/// set so that ping needs no capability. (Low ports are free from the start.)
pub fn sysctls(pod: &Pod, ids: &Ids) -> Result<Vec<(String, String)>, String> {
    let (first, last) = ids.groups.outermost();
    let mut out = vec![(
        "net.ipv4.ping_group_range".to_owned(),
        format!("{first} {}", last.min(MAX_PING_GROUP)),
    )];
    let asked = pod.spec.as_ref().and_then(|s| s.security_context.as_ref()?.sysctls.as_ref());
    for sysctl in asked.into_iter().flatten() {
        let name = sysctl.name.replace('/', ".");
        let plain = name.split('.').all(|part| {
            !part.is_empty()
                && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
        });
        if !name.starts_with("net.") || !plain || Path::new(&name).is_absolute() {
            return Err(format!(
                "forbidden sysctl: \"{}\": only net.* sysctls can be set in a pod",
                sysctl.name
            ));
        }
        out.retain(|(known, _)| *known != name);
        out.push((name, sysctl.value.clone()));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn merged(pod_context: Value, context: Value, image: ImageUser) -> Result<Security, Error> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"securityContext": pod_context, "containers": []}
        }))
        .unwrap();
        let container =
            serde_json::from_value(json!({"name": "c", "securityContext": context})).unwrap();
        merge(&pod, &container, image)
    }

    #[test]
    fn the_container_wins_over_the_pod_and_the_pod_over_the_image() {
        let image = ImageUser { uid: 7, gid: 8 };
        let table = [
            (json!({}), json!({}), (7, 8)),
            (json!({"runAsUser": 1}), json!({}), (1, 0)),
            (json!({"runAsUser": 1, "runAsGroup": 2}), json!({"runAsUser": 3}), (3, 2)),
            (json!({}), json!({"runAsGroup": 4}), (7, 4)),
        ];
        for (pod, container, want) in table {
            let got = merged(pod, container, image).unwrap();
            assert_eq!((got.uid, got.gid), want);
        }
    }

    #[test]
    fn non_root_is_kept() {
        assert!(matches!(
            merged(json!({"runAsNonRoot": true}), json!({}), ImageUser::default()),
            Err(Error::WouldBeRoot { .. })
        ));
        assert!(matches!(
            merged(
                json!({}),
                json!({"runAsNonRoot": true, "runAsUser": 0}),
                ImageUser { uid: 5, gid: 5 }
            ),
            Err(Error::RunAsRoot { .. })
        ));
        assert!(
            merged(json!({"runAsNonRoot": true}), json!({"runAsUser": 9}), ImageUser::default())
                .is_ok()
        );
    }

    #[test]
    fn capabilities_are_named_alike_and_checked() {
        let of =
            |caps: Value| merged(json!({}), json!({"capabilities": caps}), ImageUser::default());
        let got = of(json!({"drop": ["all"], "add": ["CAP_NET_ADMIN", "net_raw"]})).unwrap();
        assert_eq!(
            (got.drop, got.add),
            (vec!["ALL".to_owned()], vec!["NET_ADMIN".to_owned(), "NET_RAW".to_owned()])
        );
        assert_eq!(of(json!({"add": ["FLY"]})), Err(Error::Capability("FLY".into())));
    }

    #[test]
    fn privilege_escalation_is_off_only_where_it_can_be() {
        let of = |context: Value| {
            merged(json!({}), context, ImageUser::default()).unwrap().no_new_privileges
        };
        assert!(of(json!({"allowPrivilegeEscalation": false})));
        assert!(!of(json!({})));
        assert!(!of(json!({"allowPrivilegeEscalation": false, "privileged": true})));
    }

    #[test]
    fn groups_hold_the_fs_group_once() {
        let got = merged(
            json!({"supplementalGroups": [5, 3], "fsGroup": 5}),
            json!({}),
            ImageUser::default(),
        )
        .unwrap();
        assert_eq!(got.groups, [3, 5]);
    }

    #[test]
    fn image_users_are_found_by_name_and_number() {
        let passwd = "root:x:0:0::/:\napp:x:1000:1001::/:\n";
        let group = "web:x:33:\n";
        let table = [
            (None, Ok((0, 0))),
            (Some("app"), Ok((1000, 1001))),
            (Some("1000"), Ok((1000, 1001))),
            (Some("77"), Ok((77, 0))),
            (Some("app:web"), Ok((1000, 33))),
            (Some("77:5"), Ok((77, 5))),
            (Some("ghost"), Err(Error::User("ghost".into()))),
        ];
        for (user, want) in table {
            let got = ImageUser::parse(user, passwd, group).map(|u| (u.uid, u.gid));
            assert_eq!(got, want, "{user:?}");
        }
    }

    #[test]
    fn sysctls_outside_the_network_are_refused() {
        let pod = |name: &str| {
            serde_json::from_value(json!({"spec": {"containers": [], "securityContext": {"sysctls": [{"name": name, "value": "9"}]}}})).unwrap()
        };
        let ids = Ids { users: IdMap::all(), groups: IdMap::all() };
        let set = sysctls(&pod("net.ipv4.ip_unprivileged_port_start"), &ids).unwrap();
        assert!(
            set.contains(&("net.ipv4.ip_unprivileged_port_start".into(), "9".into()))
                && set.len() == 2
        );
        assert!(sysctls(&pod("kernel.msgmax"), &ids).is_err());
        assert!(sysctls(&pod("net.../x"), &ids).is_err());
    }

    #[test]
    fn ids_that_do_not_exist_are_named_with_what_to_do() {
        let map = || IdMap::parse("0 1001 1\n1 100000 65536\n");
        let ids = Ids { users: map(), groups: map() };
        let check = |context: Value| {
            ids.check(&merged(context, json!({}), ImageUser::default()).unwrap())
                .map_err(|e| e.to_string())
        };
        assert_eq!(check(json!({"runAsUser": 65536, "runAsGroup": 1, "fsGroup": 2000})), Ok(()));
        assert_eq!(
            check(json!({"runAsUser": 70000})).unwrap_err(),
            "user 70000 is beyond the last one that podlet's user namespace has (65536): give the user who runs podlet more ids in /etc/subuid, or run podlet as root"
        );
        for context in [
            json!({"runAsGroup": 70000}),
            json!({"supplementalGroups": [1, 70000]}),
            json!({"fsGroup": 70000}),
        ] {
            let error = check(context).unwrap_err();
            assert!(
                error.starts_with("group 70000 is") && error.contains("/etc/subgid"),
                "{error}"
            );
        }
        let pod = serde_json::from_value(json!({"spec": {"containers": []}})).unwrap();
        let set = sysctls(&pod, &ids).unwrap();
        assert!(set.contains(&("net.ipv4.ping_group_range".into(), "0 65536".into())), "{set:?}");
    }
}
