//! From the names in a spec to a set of capabilities, as container runtimes do it.

use ironsail_sys::capability::CapabilitySet;

use crate::{Capabilities, StartError};

/// What runtimes grant by default, except `MKNOD`: without a bound on the devices that a process may
/// open, whoever can make a node can reach the host's disks.
const DEFAULT: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// `ALL` works on both lists; what is both added and dropped by name is dropped, unless everything
/// was dropped: then the additions are what is left.
pub(crate) fn resolve(wanted: &Capabilities) -> Result<CapabilitySet, StartError> {
    if wanted.privileged {
        return Ok(CapabilitySet::ALL);
    }
    let added = named(&wanted.add)?;
    if names_all(&wanted.drop) {
        return Ok(added);
    }
    let default = DEFAULT.iter().filter_map(|name| CapabilitySet::of(name));
    let default = default.fold(CapabilitySet::EMPTY, CapabilitySet::with);
    Ok(default.with(added).without(named(&wanted.drop)?))
}

fn named(names: &[String]) -> Result<CapabilitySet, StartError> {
    names.iter().try_fold(CapabilitySet::EMPTY, |set, name| {
        if name.eq_ignore_ascii_case("ALL") {
            return Ok(CapabilitySet::ALL);
        }
        let one = CapabilitySet::of(name)
            .ok_or_else(|| StartError::Spec(format!("unknown capability {name:?}")))?;
        Ok(set.with(one))
    })
}

fn names_all(names: &[String]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case("ALL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(add: &[&str], drop: &[&str], held: &[&str], not_held: &[&str]) {
        let own = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let wanted = Capabilities { add: own(add), drop: own(drop), privileged: false };
        let set = resolve(&wanted).expect("known names");
        let of = |name: &&str| CapabilitySet::of(name).expect("known name");
        assert!(held.iter().all(|name| set.contains(of(name))), "{add:?} {drop:?}");
        assert!(!not_held.iter().any(|name| set.contains(of(name))), "{add:?} {drop:?}");
    }

    #[test]
    fn additions_and_removals_change_the_default_set() {
        check(&[], &[], &["CHOWN", "NET_RAW"], &["NET_ADMIN", "SYS_ADMIN"]);
        check(&["NET_ADMIN"], &["NET_RAW"], &["NET_ADMIN", "CHOWN"], &["NET_RAW"]);
    }

    #[test]
    fn all_dropped_leaves_the_additions_and_all_added_honours_removals() {
        check(&["NET_ADMIN"], &["ALL"], &["NET_ADMIN"], &["CHOWN"]);
        check(&["ALL"], &["SYS_ADMIN"], &["NET_ADMIN", "BPF"], &["SYS_ADMIN"]);
    }

    #[test]
    fn an_unknown_name_is_refused() {
        let wanted = Capabilities { add: vec!["FLY".to_owned()], ..Capabilities::default() };
        assert_eq!(
            resolve(&wanted).expect_err("no such capability").to_string(),
            "unknown capability \"FLY\""
        );
    }
}
