//! What the status of a ServiceEntry shows, and the patch that makes it right. No IO.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::Given;

/// The addresses in the status of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    given: Vec<Given>,
    /// There are addresses that cannot be read: whatever they are, they are not ours.
    foreign: bool,
    version: String,
}

impl Shown {
    pub(super) fn read(object: &DynamicObject) -> Self {
        let addresses = object.data["status"]["addresses"].as_array();
        let one = |value: &Value| {
            let address = value["value"].as_str()?.parse().ok()?;
            Some(Given { host: value["host"].as_str().unwrap_or_default().to_owned(), address })
        };
        let mut given: Vec<_> = addresses.into_iter().flatten().filter_map(one).collect();
        let foreign = given.len() != addresses.map_or(0, Vec::len);
        given.sort();
        let version = object.metadata.resource_version.clone().unwrap_or_default();
        Self { given, foreign, version }
    }

    /// Nothing when the status shows `wanted`, which is sorted, and nothing else.
    pub(super) fn patch(&self, wanted: &[Given]) -> Option<Value> {
        if self.given == wanted && !self.foreign {
            return None;
        }
        let one = |given: &Given| json!({"host": given.host, "value": given.address.to_string()});
        let addresses = match wanted {
            // Null takes the field away.
            [] => Value::Null,
            wanted => wanted.iter().map(one).collect(),
        };
        Some(json!({
            // Whoever wrote in between is not overwritten.
            "metadata": {"resourceVersion": self.version},
            "status": {"addresses": addresses},
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(addresses: &Value) -> Shown {
        let object = json!({
            "apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
            "metadata": {"name": "s", "resourceVersion": "7"}, "status": {"addresses": addresses},
        });
        Shown::read(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn status_is_written_only_where_it_says_something_else() {
        let wanted = [Given { host: "a".to_owned(), address: "240.240.0.1".parse().unwrap() }];
        let right = json!([{"host": "a", "value": "240.240.0.1"}]);
        assert_eq!(shown(&right).patch(&wanted), None);
        let patch = shown(&Value::Null).patch(&wanted).unwrap();
        assert_eq!(patch["status"]["addresses"], right);
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(shown(&right).patch(&[]).unwrap()["status"]["addresses"], Value::Null);
        assert_eq!(shown(&Value::Null).patch(&[]), None);
        let odd = json!([{"host": "a", "value": "240.240.0.1"}, {"value": "what"}]);
        assert!(shown(&odd).patch(&wanted).is_some());
    }
}
