//! `Telemetry`.

use super::check::Check;
use super::name::head;
use super::selector;
use crate::istio::telemetry::{
    CustomTag, MetricName, Metrics, ProviderRef, TagOperation, Telemetry, Tracing,
};

pub(super) fn check(check: &mut Check<'_>, telemetry: &Telemetry) {
    let Telemetry { selector, target_ref, target_refs, .. } = telemetry;
    selector::policy(check, selector.as_ref(), target_ref.as_ref(), target_refs);
    if telemetry.tracing.len() > 1 {
        check.within("tracing", |check| check.warn("multiple tracing is not currently supported"));
    }
    check.each("tracing", &telemetry.tracing, tracing);
    check.each("metrics", &telemetry.metrics, metrics);
    check.each("accessLogging", &telemetry.access_logging, |check, logging| {
        providers(check, &logging.providers);
        check.some("filter", logging.filter.as_ref(), |check, filter| {
            check.require(balanced(&filter.expression), || {
                format!("invalid filter expression {:?}", head(&filter.expression))
            });
        });
    });
}

fn providers(check: &mut Check<'_>, providers: &[ProviderRef]) {
    check.each("providers", providers, |check, provider| {
        check.require(!provider.name.is_empty(), || "providers.name may not be empty");
    });
}

fn tracing(check: &mut Check<'_>, tracing: &Tracing) {
    if tracing.providers.len() > 1 {
        check.warn("multiple providers is not currently supported");
    }
    providers(check, &tracing.providers);
    let percent = tracing.random_sampling_percentage.unwrap_or(0.0);
    check.require(
        (0.0..=100.0).contains(&percent),
        || "randomSamplingPercentage must be in range [0.0, 100.0]",
    );
    for (name, tag) in &tracing.custom_tags {
        check.within("customTags", |check| {
            check.require(!name.is_empty(), || "tag name may not be empty");
            let (text, message) = match tag {
                CustomTag::Literal(tag) => (&tag.value, "literal tag value may not be empty"),
                CustomTag::Header(tag) => (&tag.name, "header tag name may not be empty"),
                CustomTag::Environment(tag) => (&tag.name, "environment tag name may not be empty"),
                CustomTag::Formatter(tag) => (&tag.value, "formatter tag value may not be empty"),
                CustomTag::Unset => {
                    return check.error(format!("tag '{}' may not have a nil value", head(name)));
                }
            };
            check.require(!text.is_empty(), || message);
        });
    }
}

fn metrics(check: &mut Check<'_>, metrics: &Metrics) {
    providers(check, &metrics.providers);
    check.duration("reportingInterval", metrics.reporting_interval);
    check.each("overrides", &metrics.overrides, |check, one| {
        for (name, tag) in &one.tag_overrides {
            check.within("tagOverrides", |check| {
                if name.is_empty() {
                    check.warn("tagOverrides.name may not be empty");
                }
                match tag.operation {
                    TagOperation::Upsert => check.require(
                        !tag.value.is_empty(),
                        || "tagOverrides.value must be set when operation is UPSERT",
                    ),
                    TagOperation::Remove => check.require(
                        tag.value.is_empty(),
                        || "tagOverrides.value may only be set when operation is UPSERT",
                    ),
                }
            });
        }
        if let Some(MetricName::CustomMetric(name)) = one.r#match.as_ref().map(|one| &one.name) {
            check.require(!name.is_empty(), || "customMetric may not be empty");
        }
    });
}

/// Whether quotes and brackets of an expression close; Envoy reads the rest of it.
fn balanced(expression: &str) -> bool {
    let mut open = Vec::new();
    let mut quote = None;
    let mut escaped = false;
    for c in expression.chars() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(q), c) if q == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(') => open.push(')'),
            (None, '[') => open.push(']'),
            (None, '{') => open.push('}'),
            (None, ')' | ']' | '}') => {
                if open.pop() != Some(c) {
                    return false;
                }
            }
            (None, _) => {}
        }
    }
    !expression.trim().is_empty() && quote.is_none() && open.is_empty()
}

#[cfg(test)]
mod tests {
    use super::balanced;

    #[test]
    fn an_expression_closes_what_it_opens() {
        assert!(balanced("response.code >= 400 && request.headers['a)'] == \"x\\\"\""));
        for bad in ["", " ", "a(", "a)", "'a", "[(])"] {
            assert!(!balanced(bad), "{bad}");
        }
    }
}
