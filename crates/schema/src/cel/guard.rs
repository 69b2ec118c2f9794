//! Refuses expressions that would nest so deep that reading or running them ends the stack.
//!
//! The parser is recursive, so this looks at the text alone. The bounds are far above what rules in
//! use have.

const MAX_LENGTH: usize = 16 * 1024;
const MAX_BRACKETS: usize = 24;
/// Of each operator, as a chain of them nests too.
const MAX_OPERATORS: usize = 160;

pub(super) fn check(source: &str) -> Result<(), &'static str> {
    if source.len() > MAX_LENGTH {
        return Err("the expression is longer than 16 KiB");
    }
    let mut depth = 0usize;
    let mut counts = [0usize; 128];
    let mut chars = source.chars().peekable();
    let mut quote: Option<char> = None;
    while let Some(c) = chars.next() {
        if let Some(open) = quote {
            match c {
                '\\' => drop(chars.next()),
                c if c == open => quote = None,
                _ => {}
            }
            continue;
        }
        match c {
            '\'' | '"' => quote = Some(c),
            '(' | '[' | '{' => {
                depth += 1;
                if depth > MAX_BRACKETS {
                    return Err("the expression nests too deep");
                }
            }
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '!' | '-' | '+' | '*' | '/' | '%' | '?' | ':' | '<' | '>' | '=' | '&' | '|' | '.' => {
                let count = &mut counts[c as usize];
                *count += 1;
                let most = if matches!(c, '.' | '&' | '|' | '=' | '!') {
                    4 * MAX_OPERATORS
                } else {
                    MAX_OPERATORS
                };
                if *count > most {
                    return Err("the expression has too many operators");
                }
            }
            _ => {}
        }
    }
    Ok(())
}
