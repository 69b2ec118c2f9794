//! Ranges of subordinate ids, as `/etc/subuid` and `/etc/subgid` list them.

/// `count` ids of the machine, from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdRange {
    pub(super) start: u32,
    pub(super) count: u32,
}

/// The kernel takes 340 lines of a map; nobody needs more than a few.
const MAX_RANGES: usize = 32;

/// The ranges of a user, who may be listed by name or by number. Bad lines are passed over.
pub(super) fn ranges_of(table: &str, name: &str, uid: u32) -> Vec<IdRange> {
    let uid = uid.to_string();
    table
        .lines()
        .filter_map(|line| {
            let mut fields = line.trim().split(':');
            let owner = fields.next()?;
            if owner != name && owner != uid {
                return None;
            }
            let start = fields.next()?.parse().ok()?;
            let count = fields.next()?.parse().ok().filter(|count| *count > 0)?;
            Some(IdRange { start, count })
        })
        .take(MAX_RANGES)
        .collect()
}

/// What the mapping tools take: triples of first id inside, first id outside, count. The user's own
/// id is 0 inside; the ranges follow from 1 on.
pub(super) fn mapping_arguments(own: u32, ranges: &[IdRange]) -> Vec<String> {
    let mut arguments = vec!["0".to_owned(), own.to_string(), "1".to_owned()];
    let mut inside: u32 = 1;
    for range in ranges {
        let count = range.count.min(u32::MAX - inside);
        arguments.extend([inside.to_string(), range.start.to_string(), count.to_string()]);
        inside += count;
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_by_name_and_by_number_and_bad_lines_are_passed_over() {
        let table = "root:1:5\nann:100000:65536\n1000:300000:10\nann:x:3\nann:5:0\n";
        assert_eq!(
            ranges_of(table, "ann", 1000),
            [IdRange { start: 100_000, count: 65536 }, IdRange { start: 300_000, count: 10 }]
        );
    }

    #[test]
    fn the_own_id_becomes_root_and_ranges_follow_without_gaps() {
        let ranges = [IdRange { start: 100_000, count: 65536 }, IdRange { start: 9, count: 2 }];
        assert_eq!(mapping_arguments(1000, &ranges).join(" "), "0 1000 1 1 100000 65536 65537 9 2");
    }
}
