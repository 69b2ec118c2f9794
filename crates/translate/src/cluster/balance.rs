//! `loadBalancer`: which host is next.
//!
//! In: the settings for this port. Out: the draft with Envoy's policy; fields that we do not act on
//! are named, so that the rule's owner is told.

use ironsail_api::istio::networking::{
    BackendUtilization, ConsistentHash, HashAlgorithm, LbPolicy as Chosen, LoadBalancerSettings,
    SimpleLb,
};
use ironsail_proto::envoy::config::cluster::v3::cluster::common_lb_config::{
    LocalityConfigSpecifier, LocalityWeightedLbConfig, ZoneAwareLbConfig,
};
use ironsail_proto::envoy::config::cluster::v3::cluster::{
    LbConfig, LbPolicy, LeastRequestLbConfig, MaglevLbConfig, RingHashLbConfig, RoundRobinLbConfig,
    SlowStartConfig,
};
use ironsail_proto::envoy::config::cluster::v3::{LoadBalancingPolicy, load_balancing_policy};
use ironsail_proto::envoy::config::core::v3::{RuntimeDouble, TypedExtensionConfig};
use ironsail_proto::envoy::extensions::load_balancing_policies::client_side_weighted_round_robin::v3::ClientSideWeightedRoundRobin;
use ironsail_proto::envoy::r#type::v3::Percent;
use ironsail_proto::google::protobuf::{FloatValue, UInt64Value};
use ironsail_proto::pack;

use super::draft::{Discovery, Draft};
use crate::endpoint::Preference;

/// Envoy's own smallest ring, written because Istio writes it.
const RING: u64 = 1024;

pub(crate) fn apply(draft: &mut Draft, settings: Option<&LoadBalancerSettings>) {
    let chosen = settings.map_or(&Chosen::Unset, |s| &s.policy);
    if let Chosen::Simple(SimpleLb::Passthrough) = chosen {
        draft.use_original_destination();
    }
    if matches!(draft.discovery, Discovery::OriginalDestination | Discovery::Dynamic) {
        // Where the caller wanted to go leaves no choice.
        return;
    }
    match chosen {
        Chosen::Simple(SimpleLb::Random) => draft.cluster.lb_policy = LbPolicy::Random.into(),
        Chosen::Simple(SimpleLb::RoundRobin) => {
            draft.cluster.lb_policy = LbPolicy::RoundRobin.into();
            draft.cluster.lb_config = slow_start(settings).map(|slow_start_config| {
                let slow_start_config = Some(slow_start_config);
                LbConfig::RoundRobinLbConfig(RoundRobinLbConfig { slow_start_config })
            });
        }
        Chosen::ConsistentHash(hash) => consistent(draft, hash),
        Chosen::BackendUtilization(settings) => by_load(draft, settings),
        Chosen::Simple(_) | Chosen::Unset => {
            draft.cluster.lb_policy = LbPolicy::LeastRequest.into();
            draft.cluster.lb_config = slow_start(settings).map(|slow_start_config| {
                let slow_start_config = Some(slow_start_config);
                LbConfig::LeastRequestLbConfig(LeastRequestLbConfig {
                    slow_start_config,
                    ..Default::default()
                })
            });
        }
    }
}

/// Envoy looks at weights of localities, and at zones, only if it is told so.
pub(crate) fn prefer(
    draft: &mut Draft,
    preference: Option<&Preference>,
    settings: Option<&LoadBalancerSettings>,
) {
    let zones = |percent: f64, least: Option<u32>| {
        LocalityConfigSpecifier::ZoneAwareLbConfig(ZoneAwareLbConfig {
            routing_enabled: Some(Percent { value: percent }),
            min_cluster_size: least.map(|least| UInt64Value { value: least.into() }),
            ..Default::default()
        })
    };
    let off = settings.and_then(|s| s.zone_aware_lb_setting.as_ref()).is_some();
    let weighted = match preference {
        Some(Preference::Zones { least, .. }) => {
            draft.lb().locality_config_specifier = Some(zones(100.0, *least));
            return;
        }
        Some(Preference::Distribute(_)) => true,
        Some(Preference::Failover { regions, labels }) => !regions.is_empty() || !labels.is_empty(),
        None => false,
    };
    if weighted {
        draft.lb().locality_config_specifier = Some(
            LocalityConfigSpecifier::LocalityWeightedLbConfig(LocalityWeightedLbConfig::default()),
        );
    } else if off {
        // Where nothing is said Envoy prefers zones as soon as it knows its own.
        draft.lb().locality_config_specifier = Some(zones(0.0, None));
    }
}

/// A client keeps its endpoint as long as that is there.
pub(crate) fn by_client(draft: &mut Draft) {
    if draft.discovery == Discovery::Eds {
        consistent(draft, &ConsistentHash::default());
    }
}

pub(crate) fn consistent(draft: &mut Draft, hash: &ConsistentHash) {
    let size = |value: u64| Some(UInt64Value { value });
    let ring = |value: u64| {
        let minimum_ring_size = size(value);
        LbConfig::RingHashLbConfig(RingHashLbConfig { minimum_ring_size, ..Default::default() })
    };
    let (policy, config) = match &hash.algorithm {
        HashAlgorithm::MagLev(maglev) => {
            let table = (maglev.table_size > 0)
                .then(|| MaglevLbConfig { table_size: size(maglev.table_size) });
            (LbPolicy::Maglev, table.map(LbConfig::MaglevLbConfig))
        }
        HashAlgorithm::RingHash(settings) => {
            let least = settings.minimum_ring_size;
            (LbPolicy::RingHash, (least > 0).then(|| ring(least)))
        }
        HashAlgorithm::Unset => {
            let least = hash.minimum_ring_size;
            (LbPolicy::RingHash, Some(ring(if least > 0 { least } else { RING })))
        }
    };
    draft.cluster.lb_policy = policy.into();
    draft.cluster.lb_config = config;
}

/// Hosts report how busy they are; Envoy weighs them by that.
fn by_load(draft: &mut Draft, settings: &BackendUtilization) {
    #[expect(clippy::cast_precision_loss, reason = "a percentage")]
    let penalty = settings.error_utilization_penalty_percent as f32 / 100.0;
    let config = ClientSideWeightedRoundRobin {
        blackout_period: settings.weight_stabilization_period.map(Into::into),
        weight_expiration_period: settings.weight_expiration_period.map(Into::into),
        weight_update_period: settings.weight_update_period.map(Into::into),
        error_utilization_penalty: (penalty > 0.0).then_some(FloatValue { value: penalty }),
        metric_names_for_computing_utilization: settings
            .metric_names_for_computing_utilization
            .clone(),
        ..Default::default()
    };
    draft.cluster.lb_policy = LbPolicy::LoadBalancingPolicyConfig.into();
    draft.cluster.load_balancing_policy = Some(LoadBalancingPolicy {
        policies: vec![load_balancing_policy::Policy {
            typed_extension_config: Some(TypedExtensionConfig {
                name: "envoy.load_balancing_policies.client_side_weighted_round_robin".into(),
                typed_config: Some(pack(&config)),
            }),
        }],
    });
}

/// New hosts get their share bit by bit.
fn slow_start(settings: Option<&LoadBalancerSettings>) -> Option<SlowStartConfig> {
    let settings = settings?;
    let warmup = settings.warmup.as_ref();
    let window = warmup.and_then(|w| w.duration).or(settings.warmup_duration_secs)?;
    let aggression = warmup
        .and_then(|w| w.aggression)
        .map(|value| RuntimeDouble { default_value: value, runtime_key: String::new() });
    let least = warmup.and_then(|w| w.minimum_percent).map(|value| Percent { value });
    Some(SlowStartConfig {
        slow_start_window: Some(window.into()),
        aggression,
        min_weight_percent: least,
    })
}
