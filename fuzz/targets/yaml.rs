//! YAML as users write it.

#![no_main]

use ironsail_yaml::documents;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(read) = documents(text) else { return };
    for value in read.into_iter().filter(serde_json::Value::is_object) {
        // JSON is YAML: what was read is read the same again.
        let again = documents(&value.to_string());
        let again = again.unwrap_or_else(|e| panic!("{value} cannot be read again: {e}"));
        assert_eq!(again, [value]);
    }
});
