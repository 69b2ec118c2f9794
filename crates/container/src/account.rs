//! What a container's own `/etc/passwd` says of a user.

/// A user's group and home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) gid: u32,
    pub(crate) home: String,
}

/// Looks in the root of the calling process. A user who is not listed has group 0 and lives in `/`.
pub(crate) fn look_up(uid: u32) -> Account {
    let table = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    find(&table, uid).unwrap_or_else(|| Account { gid: 0, home: "/".to_owned() })
}

/// Lines look like `name:x:uid:gid:comment:home:shell`.
fn find(table: &str, uid: u32) -> Option<Account> {
    table.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        let found: u32 = fields.next()?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        let home = fields.nth(1).filter(|home| !home.is_empty()).unwrap_or("/");
        (found == uid).then(|| Account { gid, home: home.to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_number_past_bad_lines() {
        let table = "root:x:0:0:root:/root:/bin/sh\nbad\nann:x:1000:100::/home/ann:/bin/sh\n";
        assert_eq!(find(table, 1000), Some(Account { gid: 100, home: "/home/ann".to_owned() }));
        assert_eq!(find(table, 7), None);
    }
}
