//! The process environment, as a value that can be passed in.

use std::collections::BTreeMap;

/// A set of environment variables. Programs take the real one at the start; tests make their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Env(BTreeMap<String, String>);

impl Env {
    /// The variables this process was started with. Values that are not UTF-8 are left out.
    pub fn of_process() -> Self {
        Self(
            std::env::vars_os()
                .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
                .collect(),
        )
    }

    /// The value of `key`; an empty value counts as unset, as it does for Istio's programs.
    pub fn var(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|v| !v.is_empty())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Env {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(iter: I) -> Self {
        Self(iter.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::Env;

    #[test]
    fn an_empty_value_counts_as_unset() {
        let env: Env = [("A", ""), ("B", "1")].into_iter().collect();
        assert_eq!((env.var("A"), env.var("B"), env.var("C")), (None, Some("1"), None));
    }
}
