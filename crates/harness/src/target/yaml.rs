//! YAML as users write it.

use ironsail_yaml::documents;

pub(crate) fn target(bytes: &[u8]) {
    let Some(text) = crate::made::<&str>(bytes) else { return };
    let Ok(read) = documents(text) else { return };
    for value in read.into_iter().filter(serde_json::Value::is_object) {
        // JSON is YAML: what was read is read the same again.
        let again = documents(&value.to_string());
        let again = again.unwrap_or_else(|e| panic!("{value} cannot be read again: {e}"));
        assert_eq!(again, [value]);
    }
}
