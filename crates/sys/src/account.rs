//! Users of this machine.

use std::io;

/// The number of the user with this name, if there is one.
pub fn user_id(name: &str) -> io::Result<Option<u32>> {
    Ok(nix::unistd::User::from_name(name)?.map(|user| user.uid.as_raw()))
}

#[cfg(test)]
mod tests {
    use super::user_id;

    #[test]
    fn root_is_user_0_and_nobody_has_a_made_up_name() {
        assert_eq!(user_id("root").unwrap(), Some(0));
        assert_eq!(user_id("no such user here").unwrap(), None);
    }
}
