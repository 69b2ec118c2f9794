//! The annotation that says what was injected: for users, for tools, and for the next injection.

use ironsail_names::annotation;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::container::{CONTAINERS, INIT_CONTAINERS};
use crate::object::{annotations, items, text};

/// Names of what the templates gave; nothing is `null`, as in Go.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    pub(crate) init_containers: Option<Vec<String>>,
    pub(crate) containers: Option<Vec<String>>,
    volumes: Option<Vec<String>>,
    image_pull_secrets: Option<Vec<String>>,
    revision: String,
}

impl Status {
    pub(crate) fn of(rendered: &Value, revision: &str) -> Self {
        let names = |section: &str| {
            let names: Vec<String> = items(rendered, &["spec", section])
                .iter()
                .map(|item| text(item, &["name"]).to_owned())
                .collect();
            (!names.is_empty()).then_some(names)
        };
        Self {
            init_containers: names(INIT_CONTAINERS),
            containers: names(CONTAINERS),
            volumes: names("volumes"),
            image_pull_secrets: names("imagePullSecrets"),
            revision: revision.to_owned(),
        }
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).expect("texts and lists of texts are JSON")
    }
}

/// What an earlier injection left. A status that nobody can read is none.
pub(crate) fn read(pod: &Value) -> Option<Status> {
    serde_json::from_str(annotations(pod).get(annotation::STATUS)?).ok()
}
