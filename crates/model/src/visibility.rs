//! Who may see an object: `exportTo`.

use std::collections::BTreeSet;

use ironsail_names::Namespace;

/// To which namespaces something is exported.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Visibility {
    /// `*`, and what is meant when nothing is said.
    #[default]
    Everyone,
    /// `~`
    Nobody,
    /// `.` has become the object's own namespace.
    Namespaces(BTreeSet<Namespace>),
}

impl Visibility {
    /// From the items of `exportTo`; if there are none, from `defaults`, which are such items too.
    /// Items that name no namespace are returned beside it: they export to nobody.
    pub fn parse<S: AsRef<str>>(
        items: &[S],
        defaults: &[S],
        own: &Namespace,
    ) -> (Self, Vec<String>) {
        let items = if items.is_empty() { defaults } else { items };
        let mut bad = Vec::new();
        let mut namespaces = BTreeSet::new();
        let mut everyone = items.is_empty();
        for item in items {
            match item.as_ref().trim() {
                "*" => everyone = true,
                "~" => {}
                "." => {
                    namespaces.insert(own.clone());
                }
                name => match name.parse() {
                    Ok(namespace) => {
                        namespaces.insert(namespace);
                    }
                    Err(_) => bad.push(name.to_owned()),
                },
            }
        }
        let visibility = match (everyone, namespaces.is_empty()) {
            (true, _) => Self::Everyone,
            (false, true) => Self::Nobody,
            (false, false) => Self::Namespaces(namespaces),
        };
        (visibility, bad)
    }

    /// Whether proxies of `namespace` may see it.
    pub fn includes(&self, namespace: &Namespace) -> bool {
        match self {
            Self::Everyone => true,
            Self::Nobody => false,
            Self::Namespaces(all) => all.contains(namespace),
        }
    }

    /// Whether some namespace sees both.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nobody, _) | (_, Self::Nobody) => false,
            (Self::Everyone, _) | (_, Self::Everyone) => true,
            (Self::Namespaces(a), Self::Namespaces(b)) => !a.is_disjoint(b),
        }
    }

    pub fn is_everyone(&self) -> bool {
        *self == Self::Everyone
    }

    /// Whether it is seen in `own` only.
    pub fn is_private(&self, own: &Namespace) -> bool {
        matches!(self, Self::Namespaces(all) if all.len() == 1 && all.contains(own))
    }
}

#[cfg(test)]
mod tests {
    use super::Visibility;

    #[test]
    fn items_name_namespaces_all_own_or_none() {
        let own = "own".parse().unwrap();
        let of = |items: &[&'static str]| Visibility::parse(items, &[], &own);
        let sees = |v: &Visibility, n: &str| v.includes(&n.parse().unwrap());
        assert!(of(&[]).0.is_everyone());
        assert!(of(&[".", "*"]).0.is_everyone());
        assert_eq!(of(&["~"]).0, Visibility::Nobody);
        let private = of(&["."]).0;
        assert!(private.is_private(&own) && sees(&private, "own") && !sees(&private, "a"));
        let two = of(&[".", "a"]).0;
        assert!(!two.is_private(&own) && sees(&two, "own") && sees(&two, "a") && !sees(&two, "b"));
        assert_eq!(of(&["NO"]), (Visibility::Nobody, vec!["NO".to_owned()]));
    }

    #[test]
    fn what_is_not_said_is_the_default() {
        let own = "own".parse().unwrap();
        assert_eq!(Visibility::parse(&[], &["~"], &own).0, Visibility::Nobody);
        assert!(Visibility::parse(&[], &["."], &own).0.is_private(&own));
        assert!(Visibility::parse(&["*"], &["."], &own).0.is_everyone());
    }
}
