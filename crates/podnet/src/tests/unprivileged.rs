//! All of it again as an ordinary user in a user namespace.

use std::os::unix::fs::PermissionsExt;

use ironsail_sys::exec;

#[test]
fn everything_works_for_an_ordinary_user_in_a_user_namespace() {
    // The test program itself may lie where an ordinary user cannot read it.
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let program = place.path().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();

    let mut command = exec::command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    command.args(["unshare", "--user", "--map-root-user", "--"]).arg(&program);
    command.args(["--skip", "unprivileged::", "--skip", "affinity_ends", "tests::"]);
    let output = command.current_dir("/").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("pods_reach_each_other_with_their_own_addresses ... ok"), "{told}");
}
