//! The order of keys in YAML: by letters, with numbers inside them by size, so `a9` before `a10`.

use std::cmp::Ordering;

pub(super) fn natural(a: &str, b: &str) -> Ordering {
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
