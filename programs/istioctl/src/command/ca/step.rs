//! The steps of a rotation, and who is behind in each: a function of what the mesh says.

use serde::Serialize;

use super::view::{Proxy, View};

/// What a rotation does, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Step {
    /// Everybody is to trust both roots; the old one signs.
    Distribute,
    /// The new one signs; both are trusted.
    Switch,
    /// Only the new one is trusted.
    Retire,
}

impl Step {
    pub(super) const ALL: [Self; 3] = [Self::Distribute, Self::Switch, Self::Retire];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Distribute => "distribute",
            Self::Switch => "switch",
            Self::Retire => "retire",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.word() == word)
    }

    pub(super) fn next(self) -> Option<Self> {
        Self::ALL.into_iter().find(|step| *step > self)
    }

    pub(super) fn back(self) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|step| *step < self)
    }

    pub(super) fn says(self) -> &'static str {
        match self {
            Self::Distribute => "both roots go out; the old one signs",
            Self::Switch => "the new root signs; certificates are renewed",
            Self::Retire => "the old root is trusted no more",
        }
    }
}

/// The two roots, by fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) old: String,
    pub(super) new: String,
}

/// Somebody who has not done a step yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Behind {
    pub(super) who: String,
    pub(super) why: String,
}

/// Everybody for whom `step` is not done. Nobody counts as done who does not say so.
pub(super) fn behind(step: Step, view: &View, change: &Change) -> Vec<Behind> {
    let mut all = Vec::new();
    let mut late = |who: &str, why: &str| {
        all.push(Behind { who: who.to_owned(), why: why.to_owned() });
    };
    for (pod, page) in &view.replicas {
        let signs = page.signing.as_ref().map(|signing| signing.root.as_str());
        let trusts = |root: &str| page.roots.iter().any(|own| own.fingerprint == root);
        let signer = if step == Step::Distribute { &change.old } else { &change.new };
        if signs != Some(signer.as_str()) {
            late(pod, "this replica of the control plane signs with another root");
        } else if !trusts(&change.new) {
            late(pod, "this replica of the control plane does not know the new root");
        } else if trusts(&change.old) == (step == Step::Retire) {
            late(pod, match step {
                Step::Retire => "this replica of the control plane still trusts the old root",
                _ => "this replica of the control plane does not know the old root",
            });
        }
    }
    for (name, proxy) in &view.proxies {
        if let Some(why) = is_late(step, proxy, change) {
            late(name, why);
        }
    }
    for name in &view.absent {
        late(name, "its proxy is not connected to the control plane");
    }
    all
}

fn is_late(step: Step, proxy: &Proxy, change: &Change) -> Option<&'static str> {
    let Some(report) = &proxy.reported else {
        return Some("its agent does not say which roots it trusts");
    };
    let leaf = report.leaf.as_ref().map(|leaf| leaf.root.as_str());
    if !report.trusts(&change.new) {
        return Some("it does not trust the new root yet");
    }
    match step {
        Step::Distribute if !report.trusts(&change.old) => Some("it does not trust the old root"),
        Step::Switch if leaf != Some(change.new.as_str()) => {
            Some("its certificate is not of the new root yet")
        }
        Step::Retire if report.trusts(&change.old) => Some("it still trusts the old root"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ironsail_identity::{HeldLeaf, TrustReport};

    use super::super::view::{Page, Root, Signing};
    use super::*;

    fn proxy(roots: &[&str], leaf: &str) -> Proxy {
        let leaf = HeldLeaf { root: leaf.to_owned(), ..HeldLeaf::default() };
        let roots = roots.iter().map(|root| (*root).to_owned()).collect();
        let reported = Some(TrustReport { roots, leaf: Some(leaf), in_use: true });
        Proxy { proxy: "a.ns".to_owned(), reported, ..Proxy::default() }
    }

    fn view(roots: &[&str], signs: &str, proxies: Vec<Proxy>) -> View {
        let root = |name: &&str| Root { fingerprint: (*name).to_owned(), ..Root::default() };
        let signing = Some(Signing { root: signs.to_owned(), ..Signing::default() });
        let roots = roots.iter().map(root).collect();
        let mut view = View::default();
        view.add("istiod".to_owned(), Page { signing, roots, proxies, ..Page::default() });
        view
    }

    fn late(step: Step, view: &View) -> Vec<String> {
        let change = Change { old: "old".to_owned(), new: "new".to_owned() };
        behind(step, view, &change).into_iter().map(|behind| behind.who).collect()
    }

    #[test]
    fn a_step_is_done_when_replicas_and_proxies_say_so() {
        let both = ["old", "new"];
        let cases = [
            (Step::Distribute, view(&both, "old", vec![proxy(&both, "old")])),
            (Step::Switch, view(&both, "new", vec![proxy(&both, "new")])),
            (Step::Retire, view(&["new"], "new", vec![proxy(&["new"], "new")])),
        ];
        for (step, view) in &cases {
            assert_eq!(late(*step, view), [""; 0], "{step:?}");
        }
        for (at, (step, _)) in cases.iter().enumerate() {
            for (other, (_, view)) in cases.iter().enumerate().filter(|(other, _)| *other != at) {
                assert!(!late(*step, view).is_empty(), "{step:?} with the state of {other}");
            }
        }
    }

    #[test]
    fn who_is_behind_silent_or_absent_is_named() {
        let both = ["old", "new"];
        let slow = view(&both, "old", vec![proxy(&["old"], "old")]);
        assert_eq!(late(Step::Distribute, &slow), ["a.ns"]);
        let renewing = view(&both, "new", vec![proxy(&both, "old")]);
        assert_eq!(late(Step::Switch, &renewing), ["a.ns"]);
        let silent = Proxy { proxy: "b.ns".to_owned(), ..Proxy::default() };
        let mut some = view(&both, "old", vec![proxy(&both, "old"), silent]);
        some.absent.insert("c.ns".to_owned());
        assert_eq!(late(Step::Distribute, &some), ["b.ns", "c.ns"]);
    }

    #[test]
    fn steps_follow_each_other_both_ways() {
        assert_eq!(Step::Distribute.next(), Some(Step::Switch));
        assert_eq!(Step::Retire.next(), None);
        assert_eq!(Step::Retire.back(), Some(Step::Switch));
        assert_eq!(Step::Distribute.back(), None);
        for step in Step::ALL {
            assert_eq!(Step::parse(step.word()), Some(step));
        }
    }
}
