//! With the real cgroups of the machine. Where they may not be made, that has to be said.

use super::*;

#[test]
fn a_group_is_made_with_its_limits_and_removed_or_the_refusal_is_told() {
    let instance = format!("test-{}", std::process::id());
    let cgroups = Cgroups::open(&instance);
    let limits =
        GroupLimits { pids: Some(7), memory_bytes: Some(32 << 20), ..GroupLimits::default() };
    let Some(group) = cgroups.create("one", &limits).expect("create") else {
        assert!(cgroups.refused().is_some(), "neither a group nor a reason");
        return;
    };
    assert!(!group.entrances().expect("entrances").is_empty());
    assert_eq!(group.oom_kills(), 0);
    if let Some(dir) = group.dirs.iter().find(|d| d.join("pids.max").exists()) {
        let written = std::fs::read_to_string(dir.join("pids.max")).expect("pids.max");
        assert_eq!(written.trim(), "7");
    }
    // A second start of the same instance finds the group and removes it.
    let again = Cgroups::open(&instance);
    assert!(group.dirs.iter().all(|dir| !dir.exists()));
    again.remove_all();
    assert!(again.places.iter().all(|place| !place.dir.exists()));
}
