//! Which ids exist in the user namespace of this process, as the kernel's map tells.

use super::IdKind;

/// The ids of a user namespace. As root of the machine that is all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdMap(Vec<Extent>);

/// `count` ids: from `inside` on in the namespace, from `outside` on in the one around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    inside: u64,
    outside: u64,
    count: u64,
}

impl IdMap {
    /// The map of this process. One that cannot be read counts as holding every id: then the kernel
    /// itself refuses.
    pub fn of_process(kind: IdKind) -> Self {
        let path = match kind {
            IdKind::User => "/proc/self/uid_map",
            IdKind::Group => "/proc/self/gid_map",
        };
        std::fs::read_to_string(path).map_or_else(|_| Self::all(), |text| Self::parse(&text))
    }

    /// Every id there can be.
    pub fn all() -> Self {
        Self(vec![Extent { inside: 0, outside: 0, count: u64::from(u32::MAX) }])
    }

    /// Reads the kernel's lines of first id inside, first id outside, count.
    pub fn parse(text: &str) -> Self {
        let extents = text.lines().filter_map(|line| {
            let mut numbers = line.split_whitespace().map(str::parse);
            let mut next = || numbers.next()?.ok();
            Some(Extent { inside: next()?, outside: next()?, count: next()? })
        });
        Self(extents.filter(|e| e.count > 0).collect())
    }

    pub fn contains(&self, id: u32) -> bool {
        let id = u64::from(id);
        self.0.iter().any(|e| (e.inside..e.inside + e.count).contains(&id))
    }

    /// The highest id that exists.
    pub fn last(&self) -> u32 {
        let last = self.0.iter().map(|e| e.inside + e.count - 1).max();
        last.map_or(0, |id| u32::try_from(id).unwrap_or(u32::MAX))
    }

    /// The ids inside that lie lowest and highest outside: the kernel keeps and compares ranges of
    /// ids by what they are outside of the namespace.
    pub fn outermost(&self) -> (u32, u32) {
        let low = self.0.iter().min_by_key(|e| e.outside).map_or(0, |e| e.inside);
        let high = self.0.iter().max_by_key(|e| e.outside);
        let high = high.map_or(0, |e| e.inside + e.count - 1);
        let id = |n| u32::try_from(n).unwrap_or(u32::MAX);
        (id(low), id(high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_an_ordinary_user_end_somewhere() {
        let map =
            IdMap::parse("         0       1001          1\n         1     100000      65536\n");
        assert!(map.contains(0) && map.contains(1337) && map.contains(65536));
        assert!(!map.contains(65537) && !map.contains(u32::MAX));
        assert_eq!((map.last(), map.outermost()), (65536, (0, 65536)));
    }

    #[test]
    fn the_order_outside_may_be_another() {
        // An own id above the subordinate ones.
        let map = IdMap::parse("0 200000 1\n1 100000 10\n");
        assert_eq!((map.last(), map.outermost()), (10, (1, 0)));
    }

    #[test]
    fn the_first_namespace_has_every_id() {
        let map = IdMap::parse("         0          0 4294967295\n");
        assert_eq!(map, IdMap::all());
        assert!(map.contains(4_294_967_294) && !map.contains(u32::MAX));
    }

    #[test]
    fn a_map_that_makes_no_sense_holds_nothing() {
        let map = IdMap::parse("x y z\n1 2\n5 5 0\n");
        assert!(!map.contains(0));
        assert_eq!((map.last(), map.outermost()), (0, (0, 0)));
    }
}
