//! What limits mean in the files of the two versions of cgroups.

/// Upper bounds for one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupLimits {
    pub memory_bytes: Option<u64>,
    /// Thousandths of a core.
    pub cpu_millis: Option<u64>,
    /// The share under contention, in the same unit.
    pub cpu_request_millis: Option<u64>,
    pub pids: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    Memory,
    Cpu,
    Pids,
}

impl Controller {
    pub const ALL: [Self; 3] = [Self::Memory, Self::Cpu, Self::Pids];

    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

impl Version {
    /// Where the kernel counts `oom_kill`.
    pub(super) fn oom_file(self) -> &'static str {
        match self {
            Self::One => "memory.oom_control",
            Self::Two => "memory.events",
        }
    }
}

/// One file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) file: &'static str,
    pub(super) value: String,
    /// Not every kernel has it, and it only sharpens another one.
    pub(super) optional: bool,
}

/// The length of the scheduler's period in microseconds.
const PERIOD: u64 = 100_000;

impl GroupLimits {
    /// What to write for those of `controllers` that this limits.
    pub(super) fn settings(&self, version: Version, controllers: &[Controller]) -> Vec<Setting> {
        let mut settings = Vec::new();
        let mut add =
            |file, value: String, optional| settings.push(Setting { file, value, optional });
        for controller in controllers {
            match (controller, version) {
                (Controller::Memory, Version::One) => {
                    if let Some(bytes) = self.memory_bytes {
                        add("memory.limit_in_bytes", bytes.to_string(), false);
                        add("memory.memsw.limit_in_bytes", bytes.to_string(), true);
                    }
                }
                (Controller::Memory, Version::Two) => {
                    if let Some(bytes) = self.memory_bytes {
                        add("memory.max", bytes.to_string(), false);
                        add("memory.swap.max", "0".to_owned(), true);
                    }
                }
                (Controller::Cpu, Version::One) => {
                    if let Some(millis) = self.cpu_millis {
                        add("cpu.cfs_period_us", PERIOD.to_string(), true);
                        add("cpu.cfs_quota_us", quota(millis).to_string(), false);
                    }
                    if let Some(millis) = self.cpu_request_millis {
                        add("cpu.shares", shares(millis).to_string(), true);
                    }
                }
                (Controller::Cpu, Version::Two) => {
                    if let Some(millis) = self.cpu_millis {
                        add("cpu.max", format!("{} {PERIOD}", quota(millis)), false);
                    }
                    if let Some(millis) = self.cpu_request_millis {
                        add("cpu.weight", weight(shares(millis)).to_string(), true);
                    }
                }
                (Controller::Pids, _) => {
                    if let Some(pids) = self.pids {
                        add("pids.max", pids.to_string(), false);
                    }
                }
            }
        }
        settings
    }
}

/// The kernel takes no quota below a millisecond.
fn quota(millis: u64) -> u64 {
    millis.saturating_mul(PERIOD / 1000).clamp(1000, i64::MAX as u64)
}

/// 1024 for a whole core, within what the kernel takes.
fn shares(millis: u64) -> u64 {
    (millis.saturating_mul(1024) / 1000).clamp(2, 262_144)
}

/// Version 2 weighs from 1 to 10000 where version 1 shares from 2 to 262144; Kubernetes' line
/// through both.
fn weight(shares: u64) -> u64 {
    1 + (shares - 2) * 9999 / 262_142
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(limits: &GroupLimits, version: Version, expect: &[(&str, &str)]) {
        let got = limits.settings(version, &Controller::ALL);
        let got: Vec<_> = got.iter().map(|s| (s.file, s.value.as_str())).collect();
        assert_eq!(got, expect);
    }

    #[test]
    fn each_version_gets_its_own_files_and_units() {
        let limits = GroupLimits {
            memory_bytes: Some(64 << 20),
            cpu_millis: Some(250),
            cpu_request_millis: Some(100),
            pids: Some(32),
        };
        check(
            &limits,
            Version::One,
            &[
                ("memory.limit_in_bytes", "67108864"),
                ("memory.memsw.limit_in_bytes", "67108864"),
                ("cpu.cfs_period_us", "100000"),
                ("cpu.cfs_quota_us", "25000"),
                ("cpu.shares", "102"),
                ("pids.max", "32"),
            ],
        );
        check(
            &limits,
            Version::Two,
            &[
                ("memory.max", "67108864"),
                ("memory.swap.max", "0"),
                ("cpu.max", "25000 100000"),
                ("cpu.weight", "4"),
                ("pids.max", "32"),
            ],
        );
    }

    #[test]
    fn what_is_not_limited_writes_nothing() {
        check(&GroupLimits::default(), Version::One, &[]);
        check(&GroupLimits::default(), Version::Two, &[]);
    }

    #[test]
    fn extreme_values_stay_within_what_the_kernel_takes() {
        assert_eq!(quota(1), 1000);
        assert_eq!(quota(u64::MAX), i64::MAX as u64);
        assert_eq!((shares(0), shares(u64::MAX)), (2, 262_144));
        assert_eq!((weight(2), weight(262_144)), (1, 10_000));
    }
}
