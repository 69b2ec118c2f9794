//! The JSON paths of printer columns, scale subresources and selectable fields: names, indices,
//! `[*]` and filters by equality, as in `.status.conditions[?(@.type=="Ready")].status`.

use serde_json::Value;

/// A path that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    /// Negative ones count from the end.
    Item(i64),
    All,
    /// Items whose member has this value (or another one, where `equal` is false).
    Where {
        path: Path,
        equal: bool,
        value: Value,
    },
}

impl Path {
    /// Reads a path that starts with a dot. The error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let text = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        if !text.starts_with(['.', '[']) {
            return Err("must be a simple json path starting with .".to_owned());
        }
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let end = bracket_end(after).ok_or("unterminated array")?;
                steps.push(bracket(&after[..end])?);
                rest = &after[end + 1..];
            } else {
                let after =
                    rest.strip_prefix('.').ok_or("must be a json path in the dot notation")?;
                let (name, left) = member(after);
                rest = left;
                match name.as_str() {
                    // A lone dot is the object itself.
                    "" if rest.is_empty() && steps.is_empty() => {}
                    "" if rest.starts_with('[') => {}
                    "" => return Err("unexpected path string, expected field name".to_owned()),
                    "*" => steps.push(Step::All),
                    _ => steps.push(Step::Member(name)),
                }
            }
        }
        Ok(Self(steps))
    }

    /// All values the path leads to.
    pub(super) fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.from(value)).collect();
        }
        found
    }

    /// The member names, if the path has nothing else: `.spec.replicas`.
    pub(super) fn members(&self) -> Option<Vec<String>> {
        let name = |step: &'_ Step| match step {
            Step::Member(name) => Some(name.clone()),
            _ => None,
        };
        self.0.iter().map(name).collect()
    }

    /// The same as a JSON pointer.
    pub(super) fn pointer(&self) -> Option<String> {
        let escaped = |name: String| name.replace('~', "~0").replace('/', "~1");
        Some(self.members()?.into_iter().map(|name| format!("/{}", escaped(name))).collect())
    }
}

impl Step {
    fn from<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Member(name), Value::Object(map)) => map.get(name).into_iter().collect(),
            (Self::All, Value::Array(items)) => items.iter().collect(),
            (Self::All, Value::Object(map)) => map.values().collect(),
            (Self::Item(at), Value::Array(items)) => {
                let len = i64::try_from(items.len()).unwrap_or(i64::MAX);
                let at = if *at < 0 { at.saturating_add(len) } else { *at };
                usize::try_from(at).ok().and_then(|at| items.get(at)).into_iter().collect()
            }
            (Self::Where { path, equal, value: wanted }, Value::Array(items)) => items
                .iter()
                .filter(|item| {
                    let found = path.find(item);
                    !found.is_empty() && found.contains(&wanted) == *equal
                })
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// Where the bracket that is open at the start ends; quotes may contain brackets.
fn bracket_end(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (1usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn bracket(inner: &str) -> Result<Step, String> {
    let inner = inner.trim();
    if inner == "*" {
        return Ok(Step::All);
    }
    if let Some(name) = quoted(inner) {
        return Ok(Step::Member(name));
    }
    if let Some(filter) = inner.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        return self::filter(filter);
    }
    inner.parse().map(Step::Item).map_err(|_| format!("invalid array index {inner}"))
}

fn filter(text: &str) -> Result<Step, String> {
    let (left, equal, right) = match (text.split_once("=="), text.split_once("!=")) {
        (Some((left, right)), _) => (left, true, right),
        (None, Some((left, right))) => (left, false, right),
        (None, None) => return Err(format!("unsupported filter {text}")),
    };
    let path = left.trim().strip_prefix('@').ok_or_else(|| format!("unsupported filter {text}"))?;
    let right = right.trim();
    let value = match quoted(right) {
        Some(text) => Value::from(text),
        None => serde_json::from_str(right).map_err(|_| format!("unsupported filter {text}"))?,
    };
    Ok(Step::Where { path: Path::parse(path)?, equal, value })
}

fn quoted(text: &str) -> Option<String> {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('\'').or_else(|| inner('"')).map(str::to_owned)
}

/// A name up to the next dot or bracket; a backslash takes the next character as it is.
fn member(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '.' | '[' => return (name, &text[at..]),
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            c => name.push(c),
        }
    }
    (name, "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "spec": {"hosts": ["a", "b"], "a.b": 1},
            "status": {"conditions": [{"type": "X", "status": "F"}, {"type": "Ready", "status": "T"}]},
        });
        let cases = [
            (".spec.hosts", json!([["a", "b"]])),
            (".spec.hosts[1]", json!(["b"])),
            (".spec.hosts[-1]", json!(["b"])),
            (".spec.hosts[*]", json!(["a", "b"])),
            (".spec.a\\.b", json!([1])),
            (".spec['a.b']", json!([1])),
            (".status.conditions[?(@.type==\"Ready\")].status", json!(["T"])),
            (".status.conditions[?(@.type!='Ready')].status", json!(["F"])),
            (".status.nothing.at.all", json!([])),
            ("{.spec.hosts[0]}", json!(["a"])),
        ];
        for (path, expect) in cases {
            let found = Path::parse(path).expect("a good path");
            let found: Vec<Value> = found.find(&object).into_iter().cloned().collect();
            assert_eq!(json!(found), expect, "{path}");
        }
    }

    #[test]
    fn wrong_paths_are_refused() {
        for path in ["spec.x", "", ".spec[", ".spec..x", ".a[?(@.x)]", ".a[b]"] {
            assert!(Path::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn simple_paths_are_pointers() {
        assert_eq!(
            Path::parse(".spec.replicas").unwrap().pointer().as_deref(),
            Some("/spec/replicas")
        );
        assert_eq!(Path::parse(".spec.x[0]").unwrap().pointer(), None);
    }
}
