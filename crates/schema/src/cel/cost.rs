//! What evaluating an expression may cost at most: its steps, those inside loops once for each turn.
//!
//! The interpreter does not count, so this is reckoned before a rule runs, from the expression and the
//! sizes of the values it can see.

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};
use serde_json::Value;

/// The largest container and text that a rule may meet.
pub(super) struct Sizes {
    items: u64,
    /// Steps that a function on the longest text takes.
    text: u64,
}

impl Sizes {
    pub(super) fn of(value: &Value, old: Option<&Value>) -> Self {
        let mut sizes = Self { items: 1, text: 0 };
        sizes.add(value);
        if let Some(old) = old {
            sizes.add(old);
        }
        sizes.text = 1 + sizes.text / 1000;
        sizes
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.text = self.text.max(text.len() as u64),
            Value::Array(items) => {
                self.items = self.items.max(items.len() as u64);
                items.iter().for_each(|item| self.add(item));
            }
            Value::Object(map) => {
                self.items = self.items.max(map.len() as u64);
                map.values().for_each(|member| self.add(member));
            }
            _ => {}
        }
    }
}

pub(super) fn of(expression: &IdedExpr, sizes: &Sizes) -> u64 {
    let inner = |expression: &IdedExpr| of(expression, sizes);
    let entries = |entries: &[kube_cel::cel::common::ast::IdedEntryExpr]| {
        entries.iter().fold(1u64, |sum, entry| {
            sum.saturating_add(match &entry.expr {
                EntryExpr::StructField(field) => inner(&field.value),
                EntryExpr::MapEntry(entry) => inner(&entry.key).saturating_add(inner(&entry.value)),
            })
        })
    };
    match &expression.expr {
        Expr::Call(call) => {
            let target = call.target.as_deref().map_or(0, inner);
            call.args
                .iter()
                .fold(sizes.text.saturating_add(target), |sum, arg| sum.saturating_add(inner(arg)))
        }
        Expr::Comprehension(loop_) => {
            let turn = inner(&loop_.loop_cond).saturating_add(inner(&loop_.loop_step));
            inner(&loop_.iter_range)
                .saturating_add(inner(&loop_.accu_init))
                .saturating_add(inner(&loop_.result))
                .saturating_add(turns(&loop_.iter_range, sizes).saturating_mul(turn))
        }
        Expr::List(list) => {
            list.elements.iter().fold(1, |sum, element| sum.saturating_add(inner(element)))
        }
        Expr::Map(map) => entries(&map.entries),
        Expr::Struct(built) => entries(&built.entries),
        Expr::Select(select) => inner(&select.operand).saturating_add(1),
        _ => 1,
    }
}

/// A list that the expression writes out has its own length.
fn turns(range: &IdedExpr, sizes: &Sizes) -> u64 {
    match &range.expr {
        Expr::List(list) => list.elements.len() as u64,
        Expr::Map(map) => map.entries.len() as u64,
        // Functions may make lists of many parts out of one text.
        Expr::Call(_) => sizes.items.max(sizes.text.saturating_mul(1000)),
        _ => sizes.items,
    }
}
