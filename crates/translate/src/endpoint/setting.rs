//! Which preference among localities counts: the rule's, else what the Service says, else the mesh's.

use ironsail_api::istio::networking::{
    LoadBalancerSettings, LocalityLbSetting, ZoneAwareLbSetting,
};
use ironsail_api::mesh::MeshConfig;
use ironsail_model::TrafficDistribution;

use super::Preference;

/// What the mesh says for those who say nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wide<'a> {
    pub(crate) locality: Option<&'a LocalityLbSetting>,
    pub(crate) zones: Option<&'a ZoneAwareLbSetting>,
}

impl<'a> Wide<'a> {
    pub(crate) fn of(config: &'a MeshConfig) -> Self {
        Self {
            locality: config.locality_lb_setting.as_ref(),
            zones: config.zone_aware_lb_setting.as_ref(),
        }
    }
}

/// `outliers` says whether failing hosts are noticed at all: without it nobody would ever fail over.
pub(crate) fn preference(
    rule: Option<&LoadBalancerSettings>,
    distribution: TrafficDistribution,
    mesh: Wide<'_>,
    outliers: bool,
) -> Option<Preference> {
    let zones = rule.and_then(|rule| rule.zone_aware_lb_setting.as_ref());
    let rule = rule.and_then(|rule| rule.locality_lb_setting.as_ref());
    let silent = zones.is_none() && rule.is_none() && distribution == TrafficDistribution::Any;
    if let Some(zones) =
        zones.or(mesh.zones.filter(|_| silent)).filter(|z| z.enabled != Some(false))
    {
        return Some(Preference::Zones {
            regions: zones.failover.iter().map(|f| (f.from.clone(), f.to.clone())).collect(),
            labels: zones.failover_priority.clone(),
            least: zones.min_cluster_size,
        });
    }
    let enabled = |s: &LocalityLbSetting| s.enabled != Some(false);
    let setting = match (rule, distribution) {
        (Some(rule), _) => Some(rule).filter(|s| enabled(s))?,
        (None, TrafficDistribution::Any) => match mesh.locality {
            Some(mesh) => Some(mesh).filter(|s| enabled(s))?,
            None => &LocalityLbSetting::default(),
        },
        (None, distribution) => return Some(nearest(distribution)),
    };
    if !setting.distribute.is_empty() {
        let rules = setting.distribute.iter().map(|d| (d.from.clone(), d.to.clone()));
        return Some(Preference::Distribute(rules.collect()));
    }
    outliers.then(|| Preference::Failover {
        regions: setting.failover.iter().map(|f| (f.from.clone(), f.to.clone())).collect(),
        labels: setting.failover_priority.clone(),
    })
}

/// `trafficDistribution` needs no sign of failure: it moves on when a place has no endpoint left.
fn nearest(distribution: TrafficDistribution) -> Preference {
    let mut labels = vec![
        "topology.istio.io/network".to_owned(),
        "topology.kubernetes.io/region".to_owned(),
        "topology.kubernetes.io/zone".to_owned(),
        "topology.istio.io/subzone".to_owned(),
    ];
    if distribution == TrafficDistribution::PreferSameNode {
        labels.push("kubernetes.io/hostname".to_owned());
    }
    Preference::Failover { regions: Vec::new(), labels }
}
