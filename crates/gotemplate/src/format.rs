//! Values as text, the way Go's `fmt` prints them: `print`, `println` and the default `%v`.

pub(crate) mod float;
pub(crate) mod printf;
pub(crate) mod quote;
pub(crate) mod spec;

use crate::buffer::Buffer;
use crate::limit::DEEPEST_VALUE;
use crate::value::Value;
use spec::Spec;

/// One value as `%v`.
pub(crate) fn display(out: &mut Buffer, value: &Value) {
    Spec::default().write(out, 'v', value);
}

/// As `fmt.Sprint`: a space between two operands when neither is a string.
pub(crate) fn print(out: &mut Buffer, values: &[Value]) {
    let mut after_text = true;
    for (i, value) in values.iter().enumerate() {
        let text = matches!(value, Value::Str(_));
        if i > 0 && !text && !after_text {
            out.push(" ");
        }
        display(out, value);
        after_text = text;
    }
}

/// As `fmt.Sprintln`: a space between all operands.
pub(crate) fn println(out: &mut Buffer, values: &[Value]) {
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push(" ");
        }
        display(out, value);
    }
    out.push("\n");
}

/// A list or map with `verb` for what is inside it.
fn container(out: &mut Buffer, spec: &Spec, verb: char, value: &Value, depth: usize) {
    if depth > DEEPEST_VALUE {
        out.stop("a value is nested too deep to be printed");
    }
    if out.is_broken() {
        return;
    }
    let (syntax, joint) = if spec.syntax { (true, ", ") } else { (false, " ") };
    match value {
        Value::List(list) if syntax && list.is_nil() => {
            out.push(value.type_name());
            out.push("(nil)");
        }
        Value::List(list) => {
            out.push(if syntax { value.type_name() } else { "" });
            out.push(if syntax { "{" } else { "[" });
            for (i, item) in list.items().iter().enumerate() {
                out.push(if i > 0 { joint } else { "" });
                spec.write_inside(out, verb, item, depth + 1);
            }
            out.push(if syntax { "}" } else { "]" });
        }
        Value::Map(map) => {
            out.push(if syntax { value.type_name() } else { "map" });
            out.push(if syntax { "{" } else { "[" });
            for (i, (key, item)) in map.entries().iter().enumerate() {
                out.push(if i > 0 { joint } else { "" });
                spec.write_inside(out, verb, &Value::Str(key.clone()), depth + 1);
                out.push(":");
                spec.write_inside(out, verb, item, depth + 1);
            }
            out.push(if syntax { "}" } else { "]" });
        }
        scalar => spec.write(out, verb, scalar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Numbers;

    fn shown(values: &[serde_json::Value], print: fn(&mut Buffer, &[Value])) -> String {
        let values: Vec<_> =
            values.iter().map(|v| Value::from_json(v, Numbers::Float).unwrap()).collect();
        let mut out = Buffer::new(1000);
        print(&mut out, &values);
        out.finish().unwrap()
    }

    #[test]
    fn values_print_as_in_go() {
        let value = serde_json::json!({"b": [1, 2.5, null, true], "a": {"x": "y"}});
        assert_eq!(shown(&[value], print), "map[a:map[x:y] b:[1 2.5 <nil> true]]");
    }

    #[test]
    fn operands_are_spaced_as_in_go() {
        let values = [1.into(), 2.into(), "a".into(), "b".into(), 3.into()];
        assert_eq!(shown(&values, print), "1 2a b3".replace("a b", "ab"));
        assert_eq!(shown(&values, println), "1 2 a b 3\n");
    }
}
