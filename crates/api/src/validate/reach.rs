//! Routes that no request can reach, because an earlier one takes it.

use std::collections::BTreeMap;

use super::check::Check;
use crate::istio::networking::{HttpMatchRequest, HttpRoute, StringMatch};
use crate::wire::Wire;
use crate::{Code, Severity};

pub(super) fn http(check: &mut Check<'_>, routes: &[HttpRoute]) {
    let names: Vec<_> = routes.iter().enumerate().map(|(i, route)| shown(&route.name, i)).collect();
    // The name of a condition does not change what it matches.
    let plain: Vec<Vec<_>> = routes
        .iter()
        .map(|route| {
            let nameless =
                |one: &HttpMatchRequest| HttpMatchRequest { name: String::new(), ..one.clone() };
            route.r#match.iter().map(nameless).collect()
        })
        .collect();
    let labels: Vec<Vec<_>> = routes
        .iter()
        .map(|route| route.r#match.iter().enumerate().map(|(i, one)| shown(&one.name, i)).collect())
        .collect();
    duplicates(check, "http", &names, &labels, plain.iter().map(Vec::as_slice));
    overlaps(check, routes, &names, &labels);
}

pub(super) fn connections<'a, M: Wire + 'a>(
    check: &mut Check<'_>,
    field: &str,
    routes: impl Iterator<Item = &'a [M]>,
) {
    let routes: Vec<_> = routes.collect();
    let names: Vec<_> = (0..routes.len()).map(|index| format!("#{index}")).collect();
    let labels: Vec<Vec<_>> = routes
        .iter()
        .map(|conditions| (0..conditions.len()).map(|index| format!("#{index}")).collect())
        .collect();
    duplicates(check, field, &names, &labels, routes.into_iter());
}

fn shown(name: &str, index: usize) -> String {
    if name.is_empty() { format!("#{index}") } else { format!("{name:?}") }
}

fn unreachable(check: &mut Check<'_>, rule: &str, reason: &str) {
    let message = format!("virtualService rule {rule} not used ({reason})");
    check.found(Code::UNREACHABLE_RULE, Severity::Warning, message);
}

fn ineffective(check: &mut Check<'_>, rule: &str, condition: &str, other: &str) {
    let message = format!(
        "virtualService rule {rule} match {condition} is not used (duplicate/overlapping match in rule {other})"
    );
    check.found(Code::INEFFECTIVE_MATCH, Severity::Info, message);
}

/// Rules behind one without conditions, and conditions that stood in an earlier rule.
fn duplicates<'a, M: Wire + 'a>(
    check: &mut Check<'_>,
    field: &str,
    names: &[String],
    labels: &[Vec<String>],
    routes: impl Iterator<Item = &'a [M]>,
) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut catch_all = false;
    for (rule, conditions) in routes.enumerate() {
        check.within(&format!("{field}[{rule}]"), |check| {
            if conditions.is_empty() {
                if catch_all {
                    unreachable(check, &names[rule], "only the last rule can have no matches");
                }
                catch_all = true;
                return;
            }
            let mut known = 0;
            for (index, condition) in conditions.iter().enumerate() {
                let text = condition.write().to_string();
                if let Some(earlier) = seen.get(&text) {
                    ineffective(check, &names[rule], &labels[rule][index], &names[*earlier]);
                    known += 1;
                } else {
                    seen.insert(text, rule);
                }
            }
            if known == conditions.len() {
                unreachable(check, &names[rule], "all matches used by prior rules");
            }
        });
    }
}

/// A condition on a path prefix with all that must be equal for another to cover it.
struct Prefix<'a> {
    rule: usize,
    label: &'a str,
    prefix: &'a str,
    condition: &'a HttpMatchRequest,
}

/// A prefix that begins with the prefix of an earlier condition which asks for nothing more.
fn overlaps(check: &mut Check<'_>, routes: &[HttpRoute], names: &[String], labels: &[Vec<String>]) {
    let mut prefixes: Vec<Prefix<'_>> = Vec::new();
    for (rule, route) in routes.iter().enumerate() {
        for (index, condition) in route.r#match.iter().enumerate() {
            let Some(StringMatch::Prefix(prefix)) = &condition.uri else { continue };
            let later = Prefix { rule, label: &labels[rule][index], prefix, condition };
            for earlier in prefixes.iter().filter(|earlier| covers(earlier, &later)) {
                check.within(&format!("http[{rule}].match[{index}]"), |check| {
                    let own = format!("{} of prefix {}", later.label, later.prefix);
                    let other = format!(
                        "{} of prefix {} on {}",
                        earlier.label, earlier.prefix, names[earlier.rule]
                    );
                    ineffective(check, &names[rule], &own, &other);
                });
            }
            // Few objects have that many; the work grows with the square.
            if prefixes.len() < 512 {
                prefixes.push(later);
            }
        }
    }
}

fn covers(earlier: &Prefix<'_>, later: &Prefix<'_>) -> bool {
    // Equal prefixes are found as duplicates.
    let path = earlier.prefix != later.prefix && later.prefix.starts_with(earlier.prefix);
    let (a, b) = (earlier.condition, later.condition);
    path && !a.ignore_uri_case
        && !b.ignore_uri_case
        && a.port == b.port
        && a.method == b.method
        && a.authority == b.authority
        && a.scheme == b.scheme
        && a.headers == b.headers
        && a.query_params == b.query_params
        && a.without_headers == b.without_headers
        && a.source_labels == b.source_labels
        && a.source_namespace == b.source_namespace
        && a.gateways == b.gateways
}
