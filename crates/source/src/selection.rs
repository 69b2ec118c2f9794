//! Which namespaces the mesh looks at: `discoverySelectors` of the mesh configuration.
//!
//! In: label selectors and the labels of namespaces. Out: whether a namespace is selected. No IO.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{operator:?} is no operator of a label selector: In, NotIn, Exists or DoesNotExist")]
    Operator { operator: String },
    #[error("the operator {operator} of the label {key:?} needs at least one value")]
    NoValues { key: String, operator: String },
}

/// Any of them may match; none at all selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selectors(Vec<Selector>);

/// All requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, BTreeSet<String>),
    NotIn(String, BTreeSet<String>),
    Exists(String),
    DoesNotExist(String),
}

impl Selector {
    /// Requires every one of `labels`.
    pub fn labels(labels: &BTreeMap<String, String>) -> Self {
        let one = |(key, value): (&String, &String)| {
            Requirement::In(key.clone(), BTreeSet::from([value.clone()]))
        };
        Self(labels.iter().map(one).collect())
    }

    /// Adds one of `matchExpressions`.
    pub fn expression(
        mut self,
        key: &str,
        operator: &str,
        values: &[String],
    ) -> Result<Self, Error> {
        let (key, set) = (key.to_owned(), values.iter().cloned().collect::<BTreeSet<_>>());
        if matches!(operator, "In" | "NotIn") && set.is_empty() {
            return Err(Error::NoValues { key, operator: operator.to_owned() });
        }
        self.0.push(match operator {
            "In" => Requirement::In(key, set),
            "NotIn" => Requirement::NotIn(key, set),
            "Exists" => Requirement::Exists(key),
            "DoesNotExist" => Requirement::DoesNotExist(key),
            other => return Err(Error::Operator { operator: other.to_owned() }),
        });
        Ok(self)
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => labels.get(key).is_some_and(|v| values.contains(v)),
            Requirement::NotIn(key, values) => labels.get(key).is_none_or(|v| !values.contains(v)),
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::DoesNotExist(key) => !labels.contains_key(key),
        })
    }
}

impl FromIterator<Selector> for Selectors {
    fn from_iter<I: IntoIterator<Item = Selector>>(selectors: I) -> Self {
        Self(selectors.into_iter().collect())
    }
}

impl Selectors {
    /// One selector that requires these labels.
    pub fn labels(labels: &[(&str, &str)]) -> Self {
        let owned = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Self(vec![Selector::labels(&owned)])
    }

    /// Whether every namespace is selected, whatever its labels.
    pub fn select_all(&self) -> bool {
        self.0.is_empty() || self.0.iter().any(|selector| selector.0.is_empty())
    }

    /// Whether a namespace with these labels is selected.
    pub fn select(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.is_empty() || self.0.iter().any(|selector| selector.matches(labels))
    }
}

/// The namespaces that are selected at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selected {
    #[default]
    All,
    Only(Arc<BTreeSet<String>>),
}

impl Selected {
    /// Objects without a namespace are always selected.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => namespace.is_empty() || names.contains(namespace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn no_selector_selects_everything_and_one_of_many_is_enough() {
        assert!(Selectors::default().select(&labels(&[])));
        let selectors: Selectors = [
            Selector::labels(&labels(&[("a", "1"), ("b", "2")])),
            Selector::default().expression("env", "In", &["x".into(), "y".into()]).unwrap(),
        ]
        .into_iter()
        .collect();
        assert!(selectors.select(&labels(&[("a", "1"), ("b", "2")])));
        assert!(!selectors.select(&labels(&[("a", "1")])));
        assert!(selectors.select(&labels(&[("env", "y")])));
        assert!(!selectors.select_all());
        assert!([Selector::default()].into_iter().collect::<Selectors>().select_all());
    }

    #[test]
    fn operators_mean_what_they_mean_in_kubernetes() {
        let values = ["x".to_owned()];
        let with = |operator: &str| Selector::default().expression("k", operator, &values).unwrap();
        assert!(with("NotIn").matches(&labels(&[])));
        assert!(!with("NotIn").matches(&labels(&[("k", "x")])));
        assert!(with("Exists").matches(&labels(&[("k", "")])));
        assert!(with("DoesNotExist").matches(&labels(&[("other", "")])));
        let error = Selector::default().expression("k", "Like", &values).unwrap_err();
        assert_eq!(error, Error::Operator { operator: "Like".to_owned() });
        assert!(Selector::default().expression("k", "In", &[]).is_err());
    }
}
