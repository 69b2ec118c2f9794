//! From texts to a mesh: defaults, then the shared text, then the main one. No IO.
//!
//! A text that is no YAML, or that has a field which cannot be what it says, is not used at all, as
//! Istio does it; the last good one of the same layer stays in its place.

use std::collections::BTreeMap;

use ironsail_api::mesh::{MeshConfig, MeshNetworks};
use ironsail_api::wire::{Problem, What};
use serde_json::Value;

use super::Mesh;
use crate::board::Board;

/// What the board calls a layer begins so.
const PLACE: &str = "mesh configuration ";

/// One text with the name of where it came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) origin: String,
    pub(super) text: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Texts {
    pub(super) shared: Text,
    pub(super) main: Text,
    pub(super) networks: Text,
}

/// The last good values.
#[derive(Default)]
pub(super) struct Layers {
    shared: Value,
    main: Value,
    networks: MeshNetworks,
    /// Of both texts together.
    config: Option<MeshConfig>,
}

impl Layers {
    pub(super) fn mesh(&mut self, texts: &Texts, board: &Board) -> Mesh {
        let mut places = BTreeMap::new();
        for (text, kept) in [(&texts.shared, &mut self.shared), (&texts.main, &mut self.main)] {
            let judge = |value: &Value| MeshConfig::parse(value).problems;
            if let Some(value) = accept(text, judge, &mut places) {
                *kept = value;
            }
        }
        let judge = |value: &Value| MeshNetworks::parse(value).problems;
        if let Some(value) = accept(&texts.networks, judge, &mut places) {
            self.networks = MeshNetworks::parse(&value).value;
        }
        let shared = MeshConfig::parse(&self.shared).value;
        let config = shared.overlaid(&self.main).value;
        let origin = &texts.main.origin;
        for (faults, why) in [
            (config.faults(), "the last good configuration stays"),
            (self.networks.faults(), "that part has no effect"),
        ] {
            for fault in faults {
                let What::Invalid(reason) = fault.what else { continue };
                let place = format!("{PLACE}{origin}: {}", fault.field);
                places.insert(place, format!("{reason}; {why}"));
            }
        }
        for field in config.without_effect() {
            let place = format!("{PLACE}{origin}: {field}");
            places.insert(place, "not supported yet: it has no effect".to_owned());
        }
        board.set_places(PLACE, &places);
        if config.faults().is_empty() {
            self.config = Some(config);
        }
        let config = self.config.clone().unwrap_or_default();
        Mesh { config, networks: self.networks.clone() }
    }
}

/// The value of a text that can be used; what is wrong with it goes to `places`.
fn accept(
    text: &Text,
    judge: impl Fn(&Value) -> Vec<Problem>,
    places: &mut BTreeMap<String, String>,
) -> Option<Value> {
    let Some(yaml) = &text.text else { return Some(Value::Null) };
    let place = |field: &str| match field {
        "" => format!("{PLACE}{}", text.origin),
        field => format!("{PLACE}{}: {field}", text.origin),
    };
    let value = match ironsail_yaml::parse::<Value>(yaml) {
        Ok(value @ (Value::Object(_) | Value::Null)) => value,
        Ok(_) => {
            places.insert(place(""), "not a set of fields; the last good text stays".to_owned());
            return None;
        }
        Err(error) => {
            places.insert(place(""), format!("{error}; the last good text stays"));
            return None;
        }
    };
    let mut usable = true;
    for problem in judge(&value) {
        let why = match problem.what {
            What::Unknown => "unknown field, ignored".to_owned(),
            What::Invalid(why) => {
                usable = false;
                format!("{why}; the last good text stays")
            }
        };
        places.insert(place(&problem.field), why);
    }
    usable.then_some(value)
}
