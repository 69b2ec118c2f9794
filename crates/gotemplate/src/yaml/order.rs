//! The order of keys in YAML: by letters, with numbers inside them by size, so `a9` before `a10`.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::value::Value;

type Entry = (Rc<str>, Value);

/// The entries in the order of their keys. The order is no total one (`0o7`, `10` and `012` form a
/// ring), so the sorting of the standard library, which may panic then, is not for it.
pub(super) fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    if entries.len() <= 12 {
        for end in 1..entries.len() {
            let mut at = end;
            while at > 0 && natural(&entries[at].0, &entries[at - 1].0) == Ordering::Less {
                entries.swap(at, at - 1);
                at -= 1;
            }
        }
        return entries;
    }
    let right = entries.split_off(entries.len() / 2);
    let (mut left, mut right) =
        (sorted(entries).into_iter().peekable(), sorted(right).into_iter().peekable());
    let mut out = Vec::new();
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let next = if natural(&b.0, &a.0) == Ordering::Less { right.next() } else { left.next() };
        out.extend(next);
    }
    out.extend(left);
    out.extend(right);
    out
}

fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(x, y)| x != y) else {
        return a.len().cmp(&b.len());
    };
    let (x, y) = (a[at], b[at]);
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => x.cmp(&y),
        // Letters come after everything else.
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            let within = (x == '0' || y == '0') && inside_number(&a[..at]);
            let (n, n_end) = number(&a, at, within);
            let (m, m_end) = number(&b, at, within);
            n.cmp(&m).then(n_end.cmp(&m_end)).then(x.cmp(&y))
        }
    }
}

/// Whether the digits before contain one that is not zero, so that a zero after them counts.
fn inside_number(before: &[char]) -> bool {
    before.iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0')
}

fn number(chars: &[char], from: usize, within: bool) -> (i64, usize) {
    let mut value = i64::from(within);
    let mut end = from;
    while let Some(digit) = chars.get(end).and_then(|c| c.to_digit(10)) {
        value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
        end += 1;
    }
    (value, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[&str]) -> Vec<String> {
        let entries = keys.iter().map(|key| (Rc::from(*key), Value::Nil)).collect();
        sorted(entries).into_iter().map(|(key, _)| key.to_string()).collect()
    }

    #[test]
    fn numbers_inside_keys_count_as_numbers() {
        assert_eq!(keys(&["a10", "b", "a9", "a", "_", "1"]), ["_", "1", "a", "a9", "a10", "b"]);
    }

    #[test]
    fn keys_that_form_a_ring_are_all_kept() {
        let ring: Vec<String> = (0..200)
            .map(|i| ["0o7", "10", "012", "0"][i % 4].to_owned() + &i.to_string())
            .collect();
        let ring: Vec<&str> = ring.iter().map(String::as_str).collect();
        assert_eq!(keys(&ring).len(), 200);
    }
}
