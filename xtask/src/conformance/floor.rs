//! The least number of cases that each family must pass: lines of `family passed`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;

pub(super) fn read(path: &Path) -> anyhow::Result<BTreeMap<String, usize>> {
    let text = super::read(path)?;
    parse(&text).with_context(|| format!("in {}", path.display()))
}

fn parse(text: &str) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut floors = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let (family, floor) = line
            .split_once(' ')
            .with_context(|| format!("{line:?} is not a family and a number"))?;
        let floor = floor.trim().parse().with_context(|| format!("the floor in {line:?}"))?;
        // A merge may leave two lines of one family; then nobody knows which holds.
        if floors.insert(family.to_owned(), floor).is_some() {
            anyhow::bail!("{family} has two floors");
        }
    }
    Ok(floors)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_line_is_a_family_and_its_floor() {
        let floors = parse("# comment\n\niptables 3\nnftables  14\n").unwrap();
        assert_eq!(
            floors.into_iter().collect::<Vec<_>>(),
            [("iptables".to_owned(), 3), ("nftables".to_owned(), 14)]
        );
        assert!(parse("iptables\n").is_err());
        assert!(parse("iptables many\n").is_err());
        assert!(parse("iptables 3\niptables 4\n").is_err());
    }
}
