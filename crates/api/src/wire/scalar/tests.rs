//! Durations, numbers and maps in all their spellings.

use proptest::prelude::*;

use super::*;
use crate::wire::read;

#[test]
fn durations_are_read_as_go_reads_them() {
    for (text, nanos) in [
        ("5s", 5_000_000_000),
        ("1.5s", 1_500_000_000),
        ("250ms", 250_000_000),
        ("1h30m", 5_400_000_000_000),
        ("0", 0),
        ("0s", 0),
        (".5s", 500_000_000),
        ("1us", 1_000),
    ] {
        assert_eq!(duration(text).map(|d| d.as_nanos()), Ok(nanos), "{text}");
    }
    for text in ["", "5", "s", "-1s", "1.2.3s", "1d", "1s5", "999999999999999999h"] {
        assert!(duration(text).is_err(), "{text}");
    }
}

#[test]
fn quoted_numbers_are_numbers() {
    assert_eq!(read::<u32>(&json!("80")), (80, vec![]));
    assert_eq!(read::<u32>(&json!(80.0)), (80, vec![]));
    let (_, problems) = read::<u32>(&json!(-1));
    assert_eq!(problems.len(), 1);
    let (_, problems) = read::<u32>(&json!("80.5"));
    assert_eq!(problems.len(), 1);
}

#[test]
fn a_map_may_be_keyed_by_numbers() {
    let (map, problems) = read::<BTreeMap<u32, String>>(&json!({"80": "a", "x": "b"}));
    assert_eq!(map, BTreeMap::from([(80, "a".to_owned())]));
    assert_eq!(problems[0].field, "x");
}

proptest! {
    #[test]
    fn a_written_duration_reads_the_same(secs in 0_u64..315_576_000_000, nanos in 0_u32..1_000_000_000) {
        let duration = Duration::new(secs, nanos);
        prop_assert_eq!(read::<Duration>(&duration.write()), (duration, vec![]));
    }

    #[test]
    fn any_text_is_a_duration_or_not(text in "\\PC{0,80}") {
        let _ = duration(&text);
    }
}
