//! Refuses expressions that would nest so deep that reading or running them ends the stack.
//!
//! The parser is recursive, so the text is looked at before it is parsed, and what came out of it
//! before it is run. The bounds are far above what rules in use have.

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};

const MAX_LENGTH: usize = 16 * 1024;
const MAX_BRACKETS: usize = 90;
/// Of each operator, as a chain of them nests too.
const MAX_OPERATORS: usize = 500;
const MAX_DEPTH: usize = 500;

pub(super) fn check_text(source: &str) -> Result<(), &'static str> {
    if source.len() > MAX_LENGTH {
        return Err("the expression is longer than 16 KiB");
    }
    let mut depth = 0usize;
    let mut counts = [0usize; 128];
    let mut chars = source.chars();
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
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c.is_ascii_punctuation() {
            counts[c as usize] += 1;
            let many = counts[c as usize] > MAX_OPERATORS && !matches!(c, ',' | '_' | '\'' | '"');
            if many || depth > MAX_BRACKETS {
                return Err("the expression nests too deep");
            }
        }
    }
    Ok(())
}

/// How deep the evaluation of an expression nests.
pub(super) fn depth(expression: &IdedExpr) -> Result<usize, &'static str> {
    let depth = measure(expression);
    if depth > MAX_DEPTH { Err("the expression nests too deep") } else { Ok(depth) }
}

fn measure(expression: &IdedExpr) -> usize {
    let entry = |entry: &EntryExpr| match entry {
        EntryExpr::StructField(field) => measure(&field.value),
        EntryExpr::MapEntry(entry) => measure(&entry.key).max(measure(&entry.value)),
    };
    let below = match &expression.expr {
        Expr::Call(call) => {
            let target = call.target.as_deref().map_or(0, measure);
            call.args.iter().map(measure).max().unwrap_or(0).max(target)
        }
        Expr::Comprehension(each) => {
            [&each.iter_range, &each.accu_init, &each.loop_cond, &each.loop_step, &each.result]
                .into_iter()
                .map(measure)
                .max()
                .unwrap_or(0)
        }
        Expr::List(list) => list.elements.iter().map(measure).max().unwrap_or(0),
        Expr::Map(map) => map.entries.iter().map(|e| entry(&e.expr)).max().unwrap_or(0),
        Expr::Struct(built) => built.entries.iter().map(|e| entry(&e.expr)).max().unwrap_or(0),
        Expr::Select(select) => measure(&select.operand),
        _ => 0,
    };
    below + 1
}
