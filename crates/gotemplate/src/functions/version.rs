//! Semantic versions against constraints such as `>=1.2 <2 || ^3.1`, as Helm charts write them.

use std::cmp::Ordering;

use super::Param::Str;
use super::{Outcome, Row, str_at};
use crate::error::Fault;
use crate::exec::Run;
use crate::value::{Map, Value};

pub(super) const TABLE: &[Row] =
    &[("semver", &[Str], None, semver), ("semverCompare", &[Str, Str], None, semver_compare)];

#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    numbers: [u64; 3],
    pre: String,
    meta: String,
}

/// One condition: an operator and a version of which parts may be left open.
#[derive(Debug)]
struct Condition {
    operator: String,
    version: Version,
    /// How many of the three numbers are given.
    given: usize,
}

fn semver(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let version = Version::parse(str_at(args, 0))?;
    let map = Map::new();
    for (name, number) in ["Major", "Minor", "Patch"].into_iter().zip(version.numbers) {
        map.insert(name, Value::Int64(i64::try_from(number).unwrap_or(i64::MAX)));
    }
    map.insert("Prerelease", version.pre.into());
    map.insert("Metadata", version.meta.into());
    map.insert("Original", str_at(args, 0).into());
    Ok(map.into())
}

fn semver_compare(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    run.spend(str_at(args, 0).len() as u64 + str_at(args, 1).len() as u64)?;
    let ways = constraint(str_at(args, 0))?;
    let version = Version::parse(str_at(args, 1))?;
    Ok(ways.iter().any(|all| all.iter().all(|one| one.holds(&version))).into())
}

impl Version {
    fn parse(text: &str) -> Result<Self, Fault> {
        let bad = || Fault::from("Invalid Semantic Version");
        let (version, given) = Self::parse_open(text).ok_or_else(bad)?;
        if given == 0 || version_has_wildcard(text) {
            return Err(bad());
        }
        Ok(version)
    }

    /// A version whose numbers may be `x` or missing, and how many are given.
    fn parse_open(text: &str) -> Option<(Self, usize)> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, meta) = match text.split_once('+') {
            Some((rest, meta)) => (rest, meta),
            None => (text, ""),
        };
        let has_meta = !meta.is_empty();
        let (core, pre) = match text.split_once('-') {
            Some((core, pre)) if !pre.is_empty() => (core, pre),
            Some(_) => return None,
            None => (text, ""),
        };
        if !is_dotted(pre) || (has_meta && !is_dotted(meta)) {
            return None;
        }
        let parts: Vec<&str> = core.split('.').collect();
        if parts.len() > 3 {
            return None;
        }
        let mut numbers = [0; 3];
        let mut given = parts.len();
        for (i, part) in parts.iter().enumerate() {
            if matches!(*part, "x" | "X" | "*") {
                given = given.min(i);
            } else if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            } else if i < given {
                numbers[i] = part.parse().ok()?;
            }
        }
        // Numbers after an open one do not count.
        Some((Self { numbers, pre: pre.to_owned(), meta: meta.to_owned() }, given))
    }

    fn order(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| prerelease(&self.pre, &other.pre))
    }
}

fn version_has_wildcard(text: &str) -> bool {
    let core = text.split(['-', '+']).next().unwrap_or(text);
    core.contains(['x', 'X', '*'])
}

/// Dot-separated identifiers, or nothing; numbers in them do not start with zero.
fn is_dotted(text: &str) -> bool {
    text.is_empty()
        || text.split('.').all(|part| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
}

/// A prerelease comes before its release; numbers come before words.
fn prerelease(a: &str, b: &str) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(x), Some(y)) => match (x.parse::<u64>(), y.parse::<u64>()) {
                (Ok(x), Ok(y)) => x.cmp(&y),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => x.cmp(y),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Alternatives, each a list of conditions that must all hold.
fn constraint(text: &str) -> Result<Vec<Vec<Condition>>, Fault> {
    text.split("||").map(conditions).collect()
}

fn conditions(text: &str) -> Result<Vec<Condition>, Fault> {
    let improper = || Fault::Problem(format!("improper constraint: {text}"));
    let mut out = Vec::new();
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(improper());
    }
    loop {
        let operator_end = rest.find(|c| !"=!<>~^".contains(c)).unwrap_or(rest.len());
        let (operator, after) = rest.split_at(operator_end);
        let after = after.trim_start();
        let version_end = after.find([' ', ',', '\t']).unwrap_or(after.len());
        let (version, after) = after.split_at(version_end);
        let (version, given) = Version::parse_open(version).ok_or_else(improper)?;
        let known = ["", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^"];
        if !known.contains(&operator) {
            return Err(improper());
        }
        out.push(Condition { operator: operator.to_owned(), version, given });
        let next = after.trim_start();
        if next.is_empty() {
            return Ok(out);
        }
        rest = match next.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None => next,
        };
        // `1.2 - 2.3` is a range.
        if let Some(upper) = rest.strip_prefix("- ").filter(|_| operator.is_empty()) {
            if let Some(lower) = out.last_mut() {
                lower.operator = ">=".to_owned();
            }
            let upper = upper.trim_start();
            let end = upper.find([' ', ',', '\t']).unwrap_or(upper.len());
            let (version, given) = Version::parse_open(&upper[..end]).ok_or_else(improper)?;
            out.push(Condition { operator: "<=".to_owned(), version, given });
            rest = upper[end..].trim_start().trim_start_matches(',').trim_start();
            if rest.is_empty() {
                return Ok(out);
            }
        }
    }
}

impl Condition {
    fn holds(&self, version: &Version) -> bool {
        let open = self.given < 3;
        // A prerelease fits only where one is asked for.
        let unasked = !version.pre.is_empty() && self.version.pre.is_empty();
        if unasked && (open || self.operator != "!=") {
            return false;
        }
        let order = version.order(&self.version);
        match self.operator.as_str() {
            "" | "=" if open => self.tilde(version),
            "" | "=" => order == Ordering::Equal,
            "!=" if open => !self.same(version, self.given),
            "!=" => order != Ordering::Equal,
            ">" if open => version.numbers[..self.given] > self.version.numbers[..self.given],
            ">" => order == Ordering::Greater,
            "<" => order == Ordering::Less,
            ">=" | "=>" => order != Ordering::Less,
            "<=" | "=<" if open => {
                version.numbers[..self.given] <= self.version.numbers[..self.given]
            }
            "<=" | "=<" => order != Ordering::Greater,
            "^" => self.caret(version),
            _ => self.tilde(version),
        }
    }

    /// The first `count` numbers are the same.
    fn same(&self, version: &Version, count: usize) -> bool {
        version.numbers[..count] == self.version.numbers[..count]
    }

    /// The last given number may grow, or the patch when all are given.
    fn tilde(&self, version: &Version) -> bool {
        let none = self.version.numbers == [0; 3] && matches!(self.given, 0 | 3);
        version.order(&self.version) != Ordering::Less
            && (none || self.same(version, self.given.min(2)))
    }

    /// Everything after the first number that is not zero may grow.
    fn caret(&self, version: &Version) -> bool {
        let fixed = match (self.version.numbers, self.given) {
            (_, 0) => 0,
            (numbers, 1) if numbers[0] == 0 => 1,
            (numbers, 2) if numbers[0] == 0 => 2,
            (numbers, _) => numbers.iter().position(|n| *n > 0).map_or(3, |first| first + 1),
        };
        version.order(&self.version) != Ordering::Less && self.same(version, fixed)
    }
}
