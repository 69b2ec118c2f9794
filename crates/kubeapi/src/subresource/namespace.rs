//! `namespaces/finalize`: the namespace controller takes away the finalizer that holds it.

use serde_json::Value;

use crate::call::Call;
use crate::query::WriteOptions;
use crate::reply::Reply;
use crate::status::Status;
use crate::verb::create::Owners;
use crate::verb::update::{Edit, Made, Outcome, Rules, change, check_identity};

const EDIT: Edit<'static> = Edit { subresource: Some("finalize"), rules: Rules::Server };

pub(crate) async fn finalize(call: &mut Call, body: &[u8]) -> Result<Reply, Status> {
    let options = WriteOptions::parse(&call.query, "UpdateOptions")?;
    let mut sent = call.decode_body(body, options.field_validation)?;
    check_identity(call, &mut sent)?;
    let make = move |old: &Value| {
        let mut value = old.clone();
        value["spec"]["finalizers"] = sent["spec"]["finalizers"].clone();
        value["metadata"]["resourceVersion"] = sent["metadata"]["resourceVersion"].clone();
        Ok(Made { value, warnings: Vec::new(), owners: Owners::Done })
    };
    change(call, EDIT, &options, &make).await.map(Outcome::reply)
}
