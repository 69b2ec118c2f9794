//! Which definition may use which names: within a group, each name belongs to one.

use serde_json::{Map, Value, json};

/// What a definition wants to be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) group: String,
    pub(super) plural: String,
    pub(super) singular: String,
    pub(super) kind: String,
    pub(super) list_kind: String,
    pub(super) short_names: Vec<String>,
    pub(super) categories: Vec<String>,
}

impl Wanted {
    pub(super) fn of(definition: &Value) -> Self {
        let names = &definition["spec"]["names"];
        let text = |key: &str| names[key].as_str().unwrap_or_default().to_owned();
        let texts = |key: &str| {
            let all = names[key].as_array().into_iter().flatten();
            all.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let kind = text("kind");
        let or = |text: String, other: String| if text.is_empty() { other } else { text };
        Self {
            group: definition["spec"]["group"].as_str().unwrap_or_default().to_owned(),
            plural: text("plural"),
            singular: or(text("singular"), kind.to_lowercase()),
            list_kind: or(text("listKind"), format!("{kind}List")),
            short_names: texts("shortNames"),
            categories: texts("categories"),
            kind,
        }
    }

    /// As `status.acceptedNames` has them.
    pub(super) fn to_value(&self) -> Value {
        let mut out = Map::new();
        let texts = [
            ("plural", &self.plural),
            ("singular", &self.singular),
            ("kind", &self.kind),
            ("listKind", &self.list_kind),
        ];
        for (key, text) in texts {
            // The two that Kubernetes always writes.
            if !text.is_empty() || matches!(key, "plural" | "kind") {
                out.insert(key.to_owned(), json!(text));
            }
        }
        for (key, list) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !list.is_empty() {
                out.insert(key.to_owned(), json!(list));
            }
        }
        Value::Object(out)
    }

    fn resources(&self) -> impl Iterator<Item = &String> {
        [&self.plural, &self.singular]
            .into_iter()
            .chain(&self.short_names)
            .filter(|n| !n.is_empty())
    }

    fn kinds(&self) -> impl Iterator<Item = &String> {
        [&self.kind, &self.list_kind].into_iter()
    }

    /// What this definition gets besides those that came before it.
    pub(super) fn settle(&self, others: &[Self]) -> Settled {
        let others: Vec<&Self> = others.iter().filter(|other| other.group == self.group).collect();
        let resource = |name: &String| others.iter().any(|o| o.resources().any(|n| n == name));
        let kind = |name: &String| others.iter().any(|o| o.kinds().any(|n| n == name));
        let mut accepted = self.clone();
        let mut conflict = None;
        // Of several conflicts the last is told, as Kubernetes does.
        let mut take = |taken: bool, reason, name: &mut String| {
            if taken {
                conflict = Some((reason, format!("{name:?} is already in use")));
                name.clear();
            }
        };
        take(resource(&self.plural), "PluralConflict", &mut accepted.plural);
        take(resource(&self.singular), "SingularConflict", &mut accepted.singular);
        for name in &mut accepted.short_names {
            take(resource(name), "ShortNamesConflict", name);
        }
        take(kind(&self.kind), "KindConflict", &mut accepted.kind);
        take(kind(&self.list_kind), "ListKindConflict", &mut accepted.list_kind);
        accepted.short_names.retain(|name| !name.is_empty());
        Settled { accepted, conflict }
    }
}

/// Which names a definition got, and why not all of them.
pub(super) struct Settled {
    pub(super) accepted: Wanted,
    /// Reason and message.
    pub(super) conflict: Option<(&'static str, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(plural: &str, kind: &str, short: &[&str]) -> Wanted {
        Wanted::of(&json!({"spec": {"group": "g.x", "names": {
            "plural": plural, "kind": kind, "shortNames": short,
        }}}))
    }

    #[test]
    fn names_belong_to_the_first_that_has_them() {
        let first = wanted("things", "Thing", &["th"]);
        let check = |other: &Wanted| other.settle(std::slice::from_ref(&first)).conflict;
        assert_eq!(check(&wanted("others", "Other", &["o"])), None);
        let expect = |reason, name: &str| Some((reason, format!("{name:?} is already in use")));
        assert_eq!(check(&wanted("th", "Other", &[])), expect("PluralConflict", "th"));
        assert_eq!(check(&wanted("others", "Other", &["th"])), expect("ShortNamesConflict", "th"));
        assert_eq!(check(&wanted("others", "Thing", &[])), expect("ListKindConflict", "ThingList"));
        let elsewhere = Wanted { group: "other.x".to_owned(), ..first.clone() };
        assert_eq!(check(&elsewhere), None);
    }
}
