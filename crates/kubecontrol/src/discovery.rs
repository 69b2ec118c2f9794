//! Which kinds the API serves, custom ones included: in comes the client, out goes one entry per
//! kind, in its preferred version.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::Api;
use kube::Client;
use kube::core::{ApiResource, DynamicObject};

/// A kind that the API serves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Served {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<String>,
}

impl Served {
    pub(crate) fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// The requests for objects of this kind in `ns`, or in the cluster.
    pub(crate) fn api(&self, client: &Client, ns: &str) -> Api<DynamicObject> {
        if self.namespaced {
            Api::namespaced_with(client.clone(), ns, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }

    /// `pods` or `deployments.apps`, as Kubernetes writes it in messages.
    pub(crate) fn title(&self) -> String {
        format!("{}.{}", self.resource.plural, self.resource.group)
    }
}

pub(crate) struct Found {
    /// By group and plural name.
    pub(crate) served: BTreeMap<(String, String), Served>,
    /// Group versions that could not be asked, with the reason.
    pub(crate) failed: Vec<String>,
}

pub(crate) async fn discover(client: &Client) -> Result<Found, kube::Error> {
    let mut found = Found { served: BTreeMap::new(), failed: Vec::new() };
    for version in client.list_core_api_versions().await?.versions {
        let list = client.list_core_api_resources(&version).await;
        found.take("", &version, list.map(|l| l.resources));
    }
    for group in client.list_api_groups().await?.groups {
        let preferred = group.preferred_version.as_ref().map(|v| v.version.clone());
        let mut versions: Vec<String> = preferred.into_iter().collect();
        for version in group.versions {
            if !versions.contains(&version.version) {
                versions.push(version.version);
            }
        }
        for version in versions {
            let both = format!("{}/{version}", group.name);
            let list = client.list_api_group_resources(&both).await;
            found.take(&group.name, &version, list.map(|l| l.resources));
        }
    }
    Ok(found)
}

impl Found {
    fn take(&mut self, group: &str, version: &str, list: Result<Vec<APIResource>, kube::Error>) {
        let api_version =
            if group.is_empty() { version.to_string() } else { format!("{group}/{version}") };
        let list = match list {
            Ok(list) => list,
            Err(error) => {
                self.failed.push(format!("{api_version}: {error}"));
                return;
            }
        };
        for entry in list {
            if entry.name.contains('/') {
                continue; // a subresource
            }
            let served = Served {
                resource: ApiResource {
                    group: group.into(),
                    version: version.into(),
                    api_version: api_version.clone(),
                    kind: entry.kind,
                    plural: entry.name.clone(),
                },
                namespaced: entry.namespaced,
                verbs: entry.verbs,
            };
            // Versions come in order of preference, so the first one stays.
            self.served.entry((group.into(), entry.name)).or_insert(served);
        }
    }
}
