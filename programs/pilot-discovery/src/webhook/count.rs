//! What became of reviews, for metrics.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::Value;

/// Counted since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Objects that were taken or refused: group, version, resource.
    validated: Mutex<BTreeMap<(bool, [String; 3]), u64>>,
    injected: Mutex<Injected>,
}

/// Pods that the injector was asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Injected {
    pub(crate) requests: u64,
    pub(crate) success: u64,
    pub(crate) failure: u64,
    /// Those that want no sidecar.
    pub(crate) skip: u64,
}

impl Counts {
    /// One review of the validation webhook, and its answer.
    pub(super) fn validation(&self, review: &[u8], answer: &[u8]) {
        let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        let (review, answer) = (read(review), read(answer));
        let word = |name: &str| {
            let word = review["request"]["resource"][name].as_str().unwrap_or_default();
            // Whoever asks names it; it becomes a label.
            word.chars().take(100).collect::<String>()
        };
        let passed = answer["response"]["allowed"] == true;
        let about = ["group", "version", "resource"].map(word);
        let mut validated = self.validated.lock();
        if validated.len() < 1_000 || validated.contains_key(&(passed, about.clone())) {
            *validated.entry((passed, about)).or_default() += 1;
        }
    }

    /// One review of the injection webhook.
    pub(super) fn injection(&self, answer: Option<&[u8]>) {
        let answer: Value =
            answer.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default();
        let response = &answer["response"];
        let mut injected = self.injected.lock();
        injected.requests += 1;
        match (response["allowed"] == true, response["patch"].is_string()) {
            (true, true) => injected.success += 1,
            (true, false) => injected.skip += 1,
            (false, _) => injected.failure += 1,
        }
    }

    pub(crate) fn validated(&self) -> BTreeMap<(bool, [String; 3]), u64> {
        self.validated.lock().clone()
    }

    pub(crate) fn injected(&self) -> Injected {
        *self.injected.lock()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reviews_are_counted_by_what_became_of_them() {
        let counts = Counts::default();
        let review =
            json!({"request": {"resource": {"group": "g", "version": "v1", "resource": "r"}}});
        let answer = |allowed: bool| json!({"response": {"allowed": allowed}}).to_string();
        for allowed in [true, true, false] {
            counts.validation(review.to_string().as_bytes(), answer(allowed).as_bytes());
        }
        let about = ["g", "v1", "r"].map(str::to_owned);
        let wanted = BTreeMap::from([((true, about.clone()), 2), ((false, about), 1)]);
        assert_eq!(counts.validated(), wanted);
        let patched = json!({"response": {"allowed": true, "patch": "W10="}}).to_string();
        for said in [Some(patched.as_bytes()), Some(answer(true).as_bytes()), None] {
            counts.injection(said);
        }
        let wanted = Injected { requests: 3, success: 1, failure: 1, skip: 1 };
        assert_eq!(counts.injected(), wanted);
    }
}
