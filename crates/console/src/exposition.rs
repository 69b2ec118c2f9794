//! Reads metrics as Prometheus' text format has them, line by line.
//!
//! What is read comes from other machines: a line that is not one is left out, nothing is kept.

use std::borrow::Cow;

/// Most labels of a line that are read.
const MOST_LABELS: usize = 64;

#[derive(Debug, PartialEq)]
pub(crate) struct Sample<'a> {
    pub(crate) name: &'a str,
    pub(crate) labels: Vec<(&'a str, Cow<'a, str>)>,
    pub(crate) value: f64,
}

impl Sample<'_> {
    /// The value of a label; empty if it has none.
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }
}

/// The samples of the metrics that are `wanted`; others cost only the look at their name.
pub(crate) fn samples<'a>(
    text: &'a str,
    wanted: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = Sample<'a>> {
    text.lines().filter_map(move |line| {
        let end = line.find(['{', ' '])?;
        let name = &line[..end];
        if name.is_empty() || name.starts_with('#') || !wanted(name) {
            return None;
        }
        read(name, &line[end..])
    })
}

fn read<'a>(name: &'a str, rest: &'a str) -> Option<Sample<'a>> {
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => read_labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.split_ascii_whitespace().next()?.parse::<f64>().ok()?;
    Some(Sample { name, labels, value })
}

type Labels<'a> = Vec<(&'a str, Cow<'a, str>)>;

fn read_labels(mut rest: &str) -> Option<(Labels<'_>, &str)> {
    let mut labels = Vec::with_capacity(28);
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (key, after) = rest.split_once("=\"")?;
        let (value, after) = read_value(after)?;
        if labels.len() < MOST_LABELS {
            labels.push((key, value));
        }
        rest = after;
    }
}

/// A value up to its closing quote, and what follows.
fn read_value(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = text.find(['"', '\\'])?;
    if text.as_bytes()[end] == b'"' {
        return Some((Cow::Borrowed(&text[..end]), &text[end + 1..]));
    }
    let mut value = text[..end].to_owned();
    let mut rest = text[end..].char_indices();
    while let Some((at, c)) = rest.next() {
        match c {
            '"' => return Some((Cow::Owned(value), &text[end + at + 1..])),
            '\\' => match rest.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Sample<'_>> {
        samples(text, |_| true).collect()
    }

    #[test]
    fn names_labels_and_values_are_read() {
        let text = "# TYPE a counter\na{b=\"c\",d=\"\"} 3\nplain 1.5 1700\nb{x=\"say \\\"hi\\\"\\n\"} +Inf\n";
        let found = all(text);
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].name, found[0].label("b"), found[0].value), ("a", "c", 3.0));
        assert_eq!((found[1].name, found[1].value), ("plain", 1.5));
        assert_eq!(found[2].label("x"), "say \"hi\"\n");
        assert!(found[2].value.is_infinite());
    }

    #[test]
    fn what_is_no_line_is_left_out() {
        assert!(all("a{b=\"c\n{\n x\na{b}\na{b=\"c\"}\na b\n\u{e4}{").is_empty());
        assert_eq!(samples("a 1\nb 2", |name| name == "b").count(), 1);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_to_its_end(text in "(?s).{0,200}") {
            let _ = all(&text);
        }

        #[test]
        fn a_value_comes_back_as_it_was_written(value in "[^\\n\\r]{0,30}") {
            let written = value.replace('\\', "\\\\").replace('"', "\\\"");
            let text = format!("m{{l=\"{written}\"}} 1");
            let found = all(&text);
            proptest::prop_assert_eq!(found.len(), 1);
            proptest::prop_assert_eq!(found[0].label("l"), value);
        }
    }
}
