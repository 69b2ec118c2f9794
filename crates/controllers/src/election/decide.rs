//! What to do about a lease as it was found. No IO, no clock.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;

use super::REVISION;

/// What a candidate reads of a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Empty when nobody holds it.
    pub(super) holder: String,
    pub(super) revision: String,
    pub(super) lasts: Duration,
    /// Changes with every write, so that a renewal is seen.
    pub(super) version: String,
}

impl Record {
    pub(super) fn of(lease: &Lease) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        let annotations = lease.metadata.annotations.as_ref();
        let seconds = spec.lease_duration_seconds.unwrap_or(0);
        Self {
            holder: spec.holder_identity.unwrap_or_default(),
            revision: annotations.and_then(|a| a.get(REVISION).cloned()).unwrap_or_default(),
            lasts: Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
            version: lease.metadata.resource_version.clone().unwrap_or_default(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is no lease.
    Create,
    /// It is free, abandoned, or held by a revision that must give way.
    Take,
    /// It is ours.
    Renew,
    /// Another holds it.
    Wait,
}

/// `unchanged` is for how long this replica has seen the lease as it is.
pub(super) fn decide(
    identity: &str,
    revision: &str,
    default_revision: &str,
    found: Option<&Record>,
    unchanged: Duration,
) -> Step {
    let Some(record) = found else { return Step::Create };
    if record.holder == identity {
        return Step::Renew;
    }
    let abandoned = record.holder.is_empty() || unchanged >= record.lasts;
    let outranked = revision == default_revision && record.revision != default_revision;
    if abandoned || outranked { Step::Take } else { Step::Wait }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(holder: &str, revision: &str) -> Record {
        Record {
            holder: holder.to_owned(),
            revision: revision.to_owned(),
            lasts: Duration::from_secs(30),
            version: "1".to_owned(),
        }
    }

    fn check(revision: &str, found: Option<&Record>, unchanged: u64, expect: Step) {
        let unchanged = Duration::from_secs(unchanged);
        assert_eq!(decide("me", revision, "default", found, unchanged), expect);
    }

    #[test]
    fn a_lease_is_taken_only_when_it_is_free_or_abandoned() {
        check("default", None, 0, Step::Create);
        check("default", Some(&held("me", "default")), 99, Step::Renew);
        check("default", Some(&held("other", "default")), 29, Step::Wait);
        check("default", Some(&held("other", "default")), 30, Step::Take);
        check("default", Some(&held("", "default")), 0, Step::Take);
    }

    #[test]
    fn the_default_revision_takes_from_others_and_never_the_other_way() {
        check("default", Some(&held("other", "canary")), 0, Step::Take);
        check("canary", Some(&held("other", "default")), 0, Step::Wait);
        check("canary", Some(&held("other", "blue")), 0, Step::Wait);
    }
}
