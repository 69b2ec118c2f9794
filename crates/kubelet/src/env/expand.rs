//! `$(NAME)` in env values, commands, arguments and subPathExpr.
//!
//! `$$` stands for one `$`; a name that is not known stays as it was written.

/// Replaces every reference that `lookup` knows.
pub fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|r| r.split_once(')')) {
            match lookup(name) {
                Some(value) => out.push_str(&value),
                None => out.extend(["$(", name, ")"]),
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn references_escapes_and_unknown_names() {
        let table = [
            ("plain", "plain"),
            ("$(A)", "1"),
            ("x$(A)y$(B)", "x1y$(B)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$A", "$A"),
            ("$(A", "$(A"),
            ("end$", "end$"),
            ("$()", "$()"),
            ("$(A)$(A)", "11"),
        ];
        for (text, want) in table {
            assert_eq!(expand(text, |n| (n == "A").then(|| "1".to_owned())), want, "{text}");
        }
    }
}
