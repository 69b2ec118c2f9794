//! How endpoints are picked: algorithms, and places near and far.

use super::check::Check;
use super::name::head;
use crate::istio::networking::{
    ConsistentHash, HashAlgorithm, HashKey, LbPolicy, LoadBalancerSettings, LocalityLbSetting,
    OutlierDetection,
};

/// Envoy's limit for a Maglev table.
const LARGEST_TABLE: u64 = 5_000_011;

pub(super) fn load_balancer(
    check: &mut Check<'_>,
    settings: &LoadBalancerSettings,
    outlier: Option<&OutlierDetection>,
) {
    match &settings.policy {
        LbPolicy::ConsistentHash(hash) => {
            check.within("consistentHash", |check| consistent_hash(check, hash));
        }
        LbPolicy::BackendUtilization(load) => check.within("backendUtilization", |check| {
            check.duration("weightStabilizationPeriod", load.weight_stabilization_period);
            check.duration("weightExpirationPeriod", load.weight_expiration_period);
            check.duration("weightUpdatePeriod", load.weight_update_period);
        }),
        LbPolicy::Simple(_) | LbPolicy::Unset => {}
    }
    check.some("localityLbSetting", settings.locality_lb_setting.as_ref(), |check, setting| {
        locality(check, setting, outlier.is_some());
    });
    check.some("zoneAwareLbSetting", settings.zone_aware_lb_setting.as_ref(), |check, setting| {
        let needs_outlier = !setting.failover.is_empty() || !setting.failover_priority.is_empty();
        if needs_outlier && outlier.is_none() {
            check.warn("outlier detection policy must be provided for failover");
        }
        check.each("failover", &setting.failover, |check, one| failover(check, &one.from, &one.to));
    });
    check.duration("warmupDurationSecs", settings.warmup_duration_secs);
    if settings.warmup.is_some() && settings.warmup_duration_secs.is_some() {
        check.warn("warmupDurationSecs is ignored when warmup is set");
    }
    check.some("warmup", settings.warmup.as_ref(), |check, warmup| {
        check.require(warmup.duration.is_some(), || "duration is required for warmup");
        check.duration("duration", warmup.duration);
        let percent = warmup.minimum_percent.is_none_or(|percent| (0.0..=100.0).contains(&percent));
        check.require(percent, || "minimumPercent value should be between 0 and 100");
        let aggression = warmup.aggression.is_none_or(|aggression| aggression >= 0.0);
        check.require(aggression, || "aggression should be greater than or equal to 0");
    });
}

fn consistent_hash(check: &mut Check<'_>, hash: &ConsistentHash) {
    if let HashKey::HttpCookie(cookie) = &hash.key {
        check.require(!cookie.name.is_empty(), || "name required for HttpCookie");
    }
    if hash.minimum_ring_size != 0 {
        check.deprecated(
            "consistent hash MinimumRingSize is deprecated, use ConsistentHashLB's RingHash configuration instead",
        );
        check.require(
            hash.algorithm.is_unset(),
            || "only one of MinimumRingSize or Maglev/Ringhash can be specified",
        );
    }
    if let HashAlgorithm::MagLev(table) = &hash.algorithm {
        let size = table.table_size;
        check.require(size != 0, || "tableSize must be set for maglev");
        check.require(size < LARGEST_TABLE, || {
            format!("tableSize must be less than {LARGEST_TABLE} for maglev")
        });
        check.require(
            size == 0 || size >= LARGEST_TABLE || is_prime(size),
            || "tableSize must be a prime number for maglev",
        );
    }
}

fn is_prime(number: u64) -> bool {
    number > 1
        && (2..)
            .take_while(|divisor| divisor * divisor <= number)
            .all(|d| !number.is_multiple_of(d))
}

fn locality(check: &mut Check<'_>, setting: &LocalityLbSetting, outlier: bool) {
    if !setting.distribute.is_empty() && !setting.failover.is_empty() {
        return check.error("can not simultaneously specify 'distribute' and 'failover'");
    }
    if !setting.failover.is_empty() {
        let topology = |label: &&String| {
            [
                "topology.kubernetes.io/region",
                "topology.kubernetes.io/zone",
                "topology.istio.io/subzone",
            ]
            .contains(&label.as_str())
        };
        if let Some(label) = setting.failover_priority.iter().find(topology) {
            check.error(format!(
                "can not simultaneously set 'failover' and topology label '{label}' in 'failover_priority'"
            ));
        }
    }
    check.each("distribute", &setting.distribute, |check, one| {
        check.require(
            one.to.values().all(|weight| (1..=100).contains(weight)),
            || "locality weight must be in range [1, 100]",
        );
        let total: u64 = one.to.values().map(|weight| u64::from(*weight)).sum();
        check.require(total == 100, || format!("total locality weight {total} != 100"));
        let places: Vec<_> = one.to.keys().map(String::as_str).collect();
        check.take_at("to", distinct_places(&places));
    });
    let places: Vec<_> = setting.distribute.iter().map(|one| one.from.as_str()).collect();
    check.take_at("distribute", distinct_places(&places));
    let fails_over = !setting.failover.is_empty() || !setting.failover_priority.is_empty();
    if fails_over && !outlier {
        check.warn("outlier detection policy must be provided for failover");
    }
    check.each("failover", &setting.failover, |check, one| failover(check, &one.from, &one.to));
}

fn failover(check: &mut Check<'_>, from: &str, to: &str) {
    check.require(from != to, || "locality lb failover settings must specify different regions");
    check.require(
        !from.contains('/') && !to.contains('/'),
        || "locality lb failover only specify region",
    );
    check.require(
        !from.contains('*') && !to.contains('*'),
        || "locality lb failover region should not contain '*' wildcard",
    );
}

/// Places as `region/zone/subzone`, none of which is part of another.
fn distinct_places(places: &[&str]) -> Result<(), String> {
    let mut seen: Vec<Vec<&str>> = Vec::new();
    for place in places {
        let stars = place.matches('*').count();
        if stars > 1 || (stars == 1 && !place.ends_with('*')) {
            return Err(format!(
                "locality {} wildcard '*' number can not exceed 1 and must be in the end",
                head(place)
            ));
        }
        let parts: Vec<_> = place.splitn(3, '/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(format!(
                "locality {} must not contain empty region/zone/subzone info",
                head(place)
            ));
        }
        let parts: Vec<_> = parts.into_iter().filter(|part| *part != "*").collect();
        if seen.iter().any(|other| other.iter().zip(&parts).all(|(a, b)| a == b)) {
            return Err(format!("locality {} overlap with previous specified ones", head(place)));
        }
        seen.push(parts);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_within_another_overlaps() {
        assert_eq!(distinct_places(&["a/b", "a/c/d", "b/*"]), Ok(()));
        for places in [["a", "a/b"], ["a/b/c", "a/*"], ["*", "a"], ["a//b", "c"], ["a*b", "c"]] {
            assert!(distinct_places(&places).is_err(), "{places:?}");
        }
    }

    #[test]
    fn primes_are_told_from_others() {
        assert!([2, 3, 5, 65537].into_iter().all(is_prime));
        assert!(![0, 1, 4, 9, 65536].into_iter().any(is_prime));
    }
}
