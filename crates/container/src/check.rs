//! Refusing specs that make no sense before anything is made for them.

use std::path::Path;

use crate::{ContainerSpec, ExecSpec, StartError, capability};

/// Longest name that the kernel takes for a host.
const MAX_HOSTNAME: usize = 64;

pub(crate) fn container(spec: &ContainerSpec) -> Result<(), StartError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if spec.id.is_empty() || spec.id.starts_with('.') || !spec.id.chars().all(plain) {
        return refuse(format!("{:?} cannot be the id of a container", spec.id));
    }
    if spec.hostname.is_empty() || spec.hostname.len() > MAX_HOSTNAME {
        return refuse(format!("{:?} cannot be a host name", spec.hostname));
    }
    let inside = spec
        .placed
        .iter()
        .map(|placed| &placed.inside)
        .chain(spec.mounts.iter().map(|mount| &mount.inside));
    for path in inside {
        if !path.is_absolute() || path.as_path() == Path::new("/") {
            return refuse(format!("{} cannot be mounted on", path.display()));
        }
    }
    if !spec.cwd.is_absolute() {
        return refuse(format!("the working directory {} is not absolute", spec.cwd.display()));
    }
    for name in spec.sysctls.keys() {
        let unsafe_name =
            name.starts_with(['.', '/']) || name.contains("..") || name.contains("//");
        if unsafe_name || name.is_empty() {
            return refuse(format!("{name:?} cannot be a sysctl"));
        }
    }
    capability::resolve(&spec.capabilities)?;
    program(&spec.argv, &spec.env)
}

pub(crate) fn command(spec: &ExecSpec) -> Result<(), StartError> {
    program(&spec.argv, &spec.env)
}

fn program(argv: &[String], env: &[(String, String)]) -> Result<(), StartError> {
    if argv.is_empty() {
        return refuse("no command specified".to_owned());
    }
    if argv.iter().any(|arg| arg.contains('\0')) {
        return refuse("an argument holds a zero byte".to_owned());
    }
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return refuse(format!("{name:?} cannot be an environment variable"));
        }
    }
    Ok(())
}

fn refuse(message: String) -> Result<(), StartError> {
    Err(StartError::Spec(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mount, MountSource, RootSpec};

    fn refusal(change: impl FnOnce(&mut ContainerSpec)) -> Option<String> {
        let mut spec = ContainerSpec::new("one", RootSpec::Host, ["true"]);
        change(&mut spec);
        container(&spec).err().map(|e| e.to_string())
    }

    #[test]
    fn a_plain_spec_passes() {
        assert_eq!(refusal(|_| {}), None);
    }

    #[test]
    fn what_could_reach_outside_is_refused() {
        for id in ["", "..", ".hidden", "a/b", "a b"] {
            assert!(refusal(|spec| spec.id = id.to_owned()).is_some(), "{id:?}");
        }
        for name in ["../kernel/x", "/net/x", "a//b", ""] {
            let set = |spec: &mut ContainerSpec| {
                spec.sysctls.insert(name.to_owned(), "1".to_owned());
            };
            assert!(refusal(set).is_some(), "{name:?}");
        }
    }

    #[test]
    fn what_the_kernel_cannot_take_is_refused() {
        assert_eq!(refusal(|s| s.argv.clear()).as_deref(), Some("no command specified"));
        assert!(refusal(|s| s.argv.push("a\0b".into())).is_some());
        assert!(refusal(|s| s.env.push(("A=B".into(), String::new()))).is_some());
        assert!(refusal(|s| s.hostname = "x".repeat(65)).is_some());
        assert!(refusal(|s| s.cwd = "relative".into()).is_some());
        for inside in ["/", "relative"] {
            let source = MountSource::Tmpfs { size_bytes: 1, mode: 0o755 };
            let mount = Mount { inside: inside.into(), source, read_only: false };
            assert!(refusal(|s| s.mounts.push(mount)).is_some(), "{inside}");
        }
    }
}
