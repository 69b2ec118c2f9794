//! `google.protobuf.Struct` from JSON values and back.
//!
//! Numbers of a `Struct` are doubles; whole ones come back as integers, as Go prints them.

use serde_json::{Map, Number, Value as Json};

use crate::google::protobuf::{ListValue, NullValue, Struct, Value, value::Kind};

impl From<Json> for Value {
    fn from(json: Json) -> Self {
        let kind = match json {
            Json::Null => Kind::NullValue(NullValue::NullValue.into()),
            Json::Bool(b) => Kind::BoolValue(b),
            Json::Number(n) => Kind::NumberValue(n.as_f64().unwrap_or_default()),
            Json::String(s) => Kind::StringValue(s),
            Json::Array(items) => {
                let values = items.into_iter().map(Self::from).collect();
                Kind::ListValue(ListValue { values })
            }
            Json::Object(map) => Kind::StructValue(map.into()),
        };
        Self { kind: Some(kind) }
    }
}

impl From<Map<String, Json>> for Struct {
    fn from(map: Map<String, Json>) -> Self {
        Self { fields: map.into_iter().map(|(k, v)| (k, v.into())).collect() }
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        match &value.kind {
            None | Some(Kind::NullValue(_)) => Self::Null,
            Some(Kind::BoolValue(b)) => Self::Bool(*b),
            Some(Kind::NumberValue(n)) => number(*n),
            Some(Kind::StringValue(s)) => Self::String(s.clone()),
            Some(Kind::ListValue(list)) => {
                Self::Array(list.values.iter().map(Self::from).collect())
            }
            Some(Kind::StructValue(fields)) => Self::Object(fields.into()),
        }
    }
}

impl From<&Struct> for Map<String, Json> {
    fn from(fields: &Struct) -> Self {
        fields.fields.iter().map(|(k, v)| (k.clone(), v.into())).collect()
    }
}

/// The JSON number for `n`: an integer if it is whole and exact; null if JSON has no such number.
pub(crate) fn number(n: f64) -> Json {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if n.fract() == 0.0 && n.abs() <= EXACT {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole and within the exact integers"
        )]
        return Json::Number(Number::from(n as i64));
    }
    Number::from_f64(n).map_or(Json::Null, Json::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_survives_the_way_through_a_struct() {
        let json = serde_json::json!({
            "LABELS": {"app": "httpbin"}, "PORTS": [1, 2.5, -3], "ON": true, "NOTHING": null
        });
        let Json::Object(map) = json else { panic!("an object") };
        let fields = Struct::from(map.clone());
        assert_eq!(Map::from(&fields), map);
    }
}
