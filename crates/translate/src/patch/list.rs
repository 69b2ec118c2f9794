//! Where in a list a patch puts its value.

use ironsail_api::istio::networking::Operation;

/// Does `operation` to `list`; whether anything changed. `is_it` is None where the patch names no
/// element: then "before" is the front and "after" the end, and nothing is replaced or removed.
pub(super) fn place<T: Clone>(
    list: &mut Vec<T>,
    operation: Operation,
    is_it: Option<&dyn Fn(&T) -> bool>,
    value: Option<&T>,
) -> bool {
    let found = is_it.and_then(|is_it| list.iter().position(is_it));
    match (operation, value, is_it) {
        (Operation::Add, Some(value), _) | (Operation::InsertAfter, Some(value), None) => {
            list.push(value.clone());
        }
        (Operation::InsertFirst, Some(value), _) | (Operation::InsertBefore, Some(value), None) => {
            list.insert(0, value.clone());
        }
        (Operation::InsertBefore | Operation::InsertAfter | Operation::Replace, _, _) => {
            let (Some(at), Some(value)) = (found, value) else { return false };
            match operation {
                Operation::InsertBefore => list.insert(at, value.clone()),
                Operation::InsertAfter => list.insert(at + 1, value.clone()),
                _ => list[at] = value.clone(),
            }
        }
        (Operation::Remove, _, Some(is_it)) => {
            let before = list.len();
            list.retain(|one| !is_it(one));
            return list.len() != before;
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(operation: Operation, named: bool) -> String {
        let mut list: Vec<&str> = vec!["a", "b", "c", "b"];
        let is_b: &dyn Fn(&&str) -> bool = &|one| *one == "b";
        place(&mut list, operation, named.then_some(is_b), Some(&"x"));
        list.concat()
    }

    #[test]
    fn every_operation_has_its_place() {
        assert_eq!(done(Operation::Add, true), "abcbx");
        assert_eq!(done(Operation::InsertFirst, true), "xabcb");
        assert_eq!(done(Operation::InsertBefore, true), "axbcb");
        assert_eq!(done(Operation::InsertBefore, false), "xabcb");
        assert_eq!(done(Operation::InsertAfter, true), "abxcb");
        assert_eq!(done(Operation::InsertAfter, false), "abcbx");
        assert_eq!(done(Operation::Replace, true), "axcb");
        assert_eq!(done(Operation::Replace, false), "abcb");
        assert_eq!(done(Operation::Remove, true), "ac");
        assert_eq!(done(Operation::Remove, false), "abcb");
        assert_eq!(done(Operation::Merge, true), "abcb");
    }
}
