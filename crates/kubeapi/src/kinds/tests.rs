//! Tests over all kinds.

use super::*;

#[test]
fn every_kind_has_a_wire_type_and_a_unique_place() {
    let mut seen = std::collections::HashSet::new();
    for kind in all() {
        assert!(decode::has_type(kind), "{}", kind.kind);
        assert!(seen.insert((kind.group, kind.version, kind.plural)), "{} twice", kind.plural);
        assert_eq!(kind.singular, kind.kind.to_lowercase());
    }
}
