//! Texts against Envoy's matchers. Regular expressions must match the whole text, as RE2 does for Envoy.

use ironsail_proto::envoy::r#type::matcher::v3::{
    StringMatcher, ValueMatcher, list_matcher, string_matcher::MatchPattern, value_matcher,
};
use serde_json::Value;

use super::{Truth, any};

/// Whether all of `text` fits the expression; not known if we cannot read the expression.
pub(crate) fn regex(expression: &str, text: &str) -> Truth {
    // `regex` is close to RE2; what it cannot read, Envoy may.
    let whole =
        regex::RegexBuilder::new(&format!("^(?:{expression})$")).size_limit(10 << 20).build();
    whole.ok().map(|regex| regex.is_match(text))
}

pub(crate) fn string(matcher: &StringMatcher, text: &str) -> Truth {
    let lower = |text: &str| text.to_ascii_lowercase();
    let (given, fold) = match matcher.ignore_case {
        true => (lower(text), true),
        false => (text.to_owned(), false),
    };
    let wanted = |text: &String| if fold { lower(text) } else { text.clone() };
    match matcher.match_pattern.as_ref()? {
        MatchPattern::Exact(exact) => Some(given == wanted(exact)),
        MatchPattern::Prefix(prefix) => Some(given.starts_with(&wanted(prefix))),
        MatchPattern::Suffix(suffix) => Some(given.ends_with(&wanted(suffix))),
        MatchPattern::Contains(part) => Some(given.contains(&wanted(part))),
        MatchPattern::SafeRegex(expression) => regex(&expression.regex, text),
        MatchPattern::Custom(_) => None,
    }
}

/// A value of metadata, such as a claim of a token.
pub(crate) fn value(matcher: &ValueMatcher, value: Option<&Value>) -> Truth {
    use value_matcher::MatchPattern as Pattern;
    match matcher.match_pattern.as_ref()? {
        Pattern::NullMatch(_) => Some(value.is_some_and(Value::is_null)),
        Pattern::PresentMatch(wanted) => Some(value.is_some() == *wanted),
        Pattern::BoolMatch(wanted) => Some(value == Some(&Value::Bool(*wanted))),
        Pattern::StringMatch(matcher) => match value.and_then(Value::as_str) {
            Some(text) => string(matcher, text),
            None => Some(false),
        },
        Pattern::ListMatch(list) => {
            let Some(items) = value.and_then(Value::as_array) else { return Some(false) };
            match list.match_pattern.as_ref()? {
                list_matcher::MatchPattern::OneOf(one) => {
                    any(items.iter().map(|item| self::value(one, Some(item))))
                }
            }
        }
        Pattern::OrMatch(or) => any(or.value_matchers.iter().map(|one| self::value(one, value))),
        Pattern::DoubleMatch(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ironsail_proto::from_json;
    use proptest::prelude::*;
    use serde_json::json;

    fn matches(matcher: &Value, text: &str) -> Truth {
        string(&from_json(matcher).unwrap(), text)
    }

    #[test]
    fn texts_match_as_envoy_matches_them() {
        for (matcher, text, wanted) in [
            (json!({"exact": "a"}), "a", Some(true)),
            (json!({"exact": "a"}), "A", Some(false)),
            (json!({"exact": "a", "ignore_case": true}), "A", Some(true)),
            (json!({"prefix": "/a"}), "/ab", Some(true)),
            (json!({"suffix": "b"}), "ab", Some(true)),
            (json!({"contains": "b"}), "abc", Some(true)),
            (json!({"safe_regex": {"regex": "a.c"}}), "abc", Some(true)),
            (json!({"safe_regex": {"regex": "b"}}), "abc", Some(false)),
            (json!({"safe_regex": {"regex": "a|abc"}}), "abc", Some(true)),
            (json!({"safe_regex": {"regex": "(?<bad"}}), "abc", None),
        ] {
            assert_eq!(matches(&matcher, text), wanted, "{matcher} {text}");
        }
    }

    #[test]
    fn a_claim_may_be_a_text_or_a_list() {
        let one = json!({"or_match": {"value_matchers": [
            {"list_match": {"one_of": {"string_match": {"exact": "dev"}}}},
            {"string_match": {"exact": "dev"}}]}});
        let matcher = from_json(&one).unwrap();
        for (claim, wanted) in [
            (json!("dev"), true),
            (json!(["ops", "dev"]), true),
            (json!(["ops"]), false),
            (json!(1), false),
        ] {
            assert_eq!(value(&matcher, Some(&claim)), Some(wanted), "{claim}");
        }
        assert_eq!(value(&matcher, None), Some(false));
    }

    proptest! {
        #[test]
        fn an_expression_of_plain_text_is_that_text(text in "[a-z0-9]{0,12}", other in "[a-z0-9]{0,12}") {
            prop_assert_eq!(regex(&text, &other), Some(text == other));
        }

        #[test]
        fn any_expression_is_read_or_not_known(expression in "\\PC{0,20}", text in "\\PC{0,20}") {
            let _ = regex(&expression, &text);
        }
    }
}
