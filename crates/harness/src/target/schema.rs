//! Schemas of custom resources, and objects that are held against them.

use crate::{json, sample};
use arbitrary::{Result, Unstructured};
use ironsail_schema::Schema;
use serde_json::Value;

fn try_one(u: &mut Unstructured<'_>) -> Result<()> {
    let definition = sample::all().iter().find(|o| o["kind"] == "CustomResourceDefinition");
    let definition = definition.expect("there is one among the samples");
    let mut schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    for _ in 0..u.int_in_range(0..=4)? {
        let json::Json(with) = u.arbitrary()?;
        json::graft(u, &mut schema, with)?;
    }
    let Ok(schema) = Schema::parse(&schema, "spec") else { return Ok(()) };
    let thing = sample::all().iter().find(|o| o["kind"] == "Thing");
    let mut object: Value = thing.expect("there is one among the samples").clone();
    for _ in 0..u.int_in_range(0..=4)? {
        let json::Json(with) = u.arbitrary()?;
        json::graft(u, &mut object, with)?;
    }
    let _ = schema.unknown_fields(&object);
    schema.prune(&mut object);
    assert!(schema.unknown_fields(&object).is_empty(), "pruning leaves nothing unknown: {object}");
    schema.drop_nulls(&mut object);
    schema.default_object(&mut object);
    let mut again = object.clone();
    schema.default_object(&mut again);
    assert_eq!(object, again, "defaults are filled in once");
    let _ = schema.validate(&object, None);
    let json::Json(with) = u.arbitrary()?;
    json::graft(u, &mut again, with)?;
    let _ = schema.validate(&again, Some(&object));
    Ok(())
}

pub(crate) fn target(bytes: &[u8]) {
    let _ = try_one(&mut Unstructured::new(bytes));
}
