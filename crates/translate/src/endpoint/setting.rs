//! Which preference among localities counts: the rule's, else what the Service says, else the mesh's.

use ironsail_api::istio::networking::LocalityLbSetting;
use ironsail_model::TrafficDistribution;

use super::Preference;

/// `outliers` says whether failing hosts are noticed at all: without it nobody would ever fail over.
pub(crate) fn preference(
    rule: Option<&LocalityLbSetting>,
    distribution: TrafficDistribution,
    mesh: Option<&LocalityLbSetting>,
    outliers: bool,
) -> Option<Preference> {
    let enabled = |s: &LocalityLbSetting| s.enabled != Some(false);
    let setting = match (rule, distribution) {
        (Some(rule), _) => Some(rule).filter(|s| enabled(s))?,
        (None, TrafficDistribution::Any) => match mesh {
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
