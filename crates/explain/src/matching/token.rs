//! Tokens of a request against the requirements of Envoy's JWT filter.
//!
//! Issuer, audience and times are judged. Signatures are not: keys may be anywhere.

use base64::Engine as _;
use ironsail_proto::envoy::extensions::filters::http::jwt_authn::v3::{
    JwtAuthentication, JwtProvider, JwtRequirement, jwt_requirement::RequiresType,
    requirement_rule::RequirementType,
};
use serde_json::Value;

use super::request::Request;
use super::route;

/// What a provider makes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Missing,
    /// Envoy's own words.
    Bad(&'static str),
    /// What it says; its signature is taken for good.
    Good(Value),
}

/// What the filter comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// With what the tokens say, if there are some.
    Pass(Option<Value>),
    /// Issuer, why in Envoy's words, status.
    Refuse { issuer: String, why: &'static str, status: u16 },
}

/// Nothing in a real token comes near it.
const LONGEST: usize = 256 << 10;

pub(crate) fn decide(filter: &JwtAuthentication, request: &Request, now: Option<i64>) -> Decision {
    let rule = filter.rules.iter().find(|rule| {
        let rule = rule.r#match.clone().unwrap_or_default();
        route::fits(&rule, request) == Some(true)
    });
    let preflight = request.method == "OPTIONS"
        && request.header("origin").is_some()
        && request.header("access-control-request-method").is_some();
    let Some(rule) = rule.filter(|_| !(filter.bypass_cors_preflight && preflight)) else {
        return Decision::Pass(None);
    };
    let Some(RequirementType::Requires(requirement)) = &rule.requirement_type else {
        return Decision::Pass(None);
    };
    let check = Check { filter, request, now };
    match check.requirement(requirement) {
        Ok(claims) => Decision::Pass(claims),
        Err((issuer, Found::Bad(why))) => {
            let status = if why.starts_with("Audiences") { 403 } else { 401 };
            Decision::Refuse { issuer, why, status }
        }
        Err((issuer, _)) => Decision::Refuse { issuer, why: "Jwt_is_missing", status: 401 },
    }
}

struct Check<'a> {
    filter: &'a JwtAuthentication,
    request: &'a Request,
    now: Option<i64>,
}

type Checked = Result<Option<Value>, (String, Found)>;

impl Check<'_> {
    fn requirement(&self, requirement: &JwtRequirement) -> Checked {
        match &requirement.requires_type {
            None => Ok(None),
            Some(RequiresType::ProviderName(name)) => self.provider(name),
            Some(RequiresType::ProviderAndAudiences(both)) => self.provider(&both.provider_name),
            Some(RequiresType::RequiresAny(any)) => {
                let mut failure: Option<(String, Found)> = None;
                for one in &any.requirements {
                    match self.requirement(one) {
                        Ok(claims) => return Ok(claims),
                        // A bad token says more than none.
                        Err(new) => match &failure {
                            Some((_, Found::Bad(_))) => {}
                            _ => failure = Some(new),
                        },
                    }
                }
                failure.map_or(Ok(None), Err)
            }
            Some(RequiresType::RequiresAll(all)) => {
                let mut claims = None;
                for one in &all.requirements {
                    claims = self.requirement(one)?.or(claims);
                }
                Ok(claims)
            }
            // Nothing may be there that is bad for all providers.
            Some(RequiresType::AllowMissing(_)) => {
                let all = self.filter.providers.values();
                let found: Vec<(String, Found)> =
                    all.map(|p| (p.issuer.clone(), self.find(p))).collect();
                let good = found.iter().find_map(|(_, found)| match found {
                    Found::Good(claims) => Some(claims.clone()),
                    _ => None,
                });
                let bad = found.into_iter().find(|(_, found)| matches!(found, Found::Bad(_)));
                match (good, bad) {
                    (Some(claims), _) => Ok(Some(claims)),
                    (None, Some(bad)) => Err(bad),
                    (None, None) => Ok(None),
                }
            }
            Some(RequiresType::AllowMissingOrFailed(_)) => Ok(None),
            Some(_) => Ok(None),
        }
    }

    fn provider(&self, name: &str) -> Checked {
        let Some(provider) = self.filter.providers.get(name) else { return Ok(None) };
        match self.find(provider) {
            Found::Good(claims) => Ok(Some(claims)),
            other => Err((provider.issuer.clone(), other)),
        }
    }

    fn find(&self, provider: &JwtProvider) -> Found {
        let Some(token) = self.token(provider) else { return Found::Missing };
        let Some(claims) = claims(&token) else {
            return Found::Bad(
                "Jwt_is_not_in_the_form_of_Header.Payload.Signature_with_two_dots_and_3_sections",
            );
        };
        let issuer = claims["iss"].as_str().unwrap_or_default();
        if !provider.issuer.is_empty() && issuer != provider.issuer {
            return Found::Bad("Jwt_issuer_is_not_configured");
        }
        if let Some(now) = self.now {
            if claims["nbf"].as_i64().is_some_and(|nbf| nbf > now + 60) {
                return Found::Bad("Jwt_not_yet_valid");
            }
            if claims["exp"].as_i64().is_some_and(|exp| exp + 60 < now) {
                return Found::Bad("Jwt_is_expired");
            }
        }
        let meant = match &claims["aud"] {
            Value::String(one) => provider.audiences.contains(one),
            Value::Array(all) => all
                .iter()
                .filter_map(Value::as_str)
                .any(|one| provider.audiences.iter().any(|own| own == one)),
            _ => false,
        };
        if !provider.audiences.is_empty() && !meant {
            return Found::Bad("Audiences_in_Jwt_are_not_allowed");
        }
        Found::Good(claims)
    }

    /// Where the provider looks for a token; by default `Authorization` and `access_token`.
    fn token(&self, provider: &JwtProvider) -> Option<String> {
        let usual = provider.from_headers.is_empty()
            && provider.from_params.is_empty()
            && provider.from_cookies.is_empty();
        if usual {
            let bearer = self.request.header("authorization");
            let bearer = bearer.as_deref().and_then(|value| value.strip_prefix("Bearer "));
            let parameter = || self.request.query("access_token");
            return bearer.or_else(parameter).map(|token| token.trim().to_owned());
        }
        for header in &provider.from_headers {
            let value = self.request.header(&header.name);
            let rest = value.as_deref().and_then(|v| v.strip_prefix(&*header.value_prefix));
            if let Some(token) = rest {
                return Some(token.trim().to_owned());
            }
        }
        let parameter = provider.from_params.iter().find_map(|name| self.request.query(name));
        let cookies = self.request.header("cookie").unwrap_or_default();
        let cookie = || {
            let mut pairs = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
            pairs.find(|(name, _)| provider.from_cookies.iter().any(|own| own == name))
        };
        parameter.map(str::to_owned).or_else(|| cookie().map(|(_, value)| value.to_owned()))
    }
}

/// The payload of a token; None if it is none.
fn claims(token: &str) -> Option<Value> {
    if token.len() > LONGEST {
        return None;
    }
    let parts: Vec<&str> = token.split('.').collect();
    let [_, payload, _] = parts[..] else { return None };
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: Value = serde_json::from_slice(&bytes).ok()?;
    claims.is_object().then_some(claims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::request::sample;
    use ironsail_proto::from_json;
    use proptest::prelude::*;
    use serde_json::json;

    fn token(claims: &Value) -> String {
        let part = |value: &Value| {
            base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string())
        };
        format!("{}.{}.sig", part(&json!({"alg": "RS256"})), part(claims))
    }

    fn filter(requires: &Value) -> JwtAuthentication {
        from_json(&json!({
            "providers": {"a": {"issuer": "a.test", "audiences": ["x"]}},
            "rules": [{"match": {"prefix": "/"}, "requires": requires}],
            "bypass_cors_preflight": true,
        }))
        .unwrap()
    }

    fn decided(requires: &Value, token: Option<&str>) -> Decision {
        let header = token.map(|token| format!("Bearer {token}")).unwrap_or_default();
        let headers: &[(&str, &str)] =
            if header.is_empty() { &[] } else { &[("authorization", header.as_str())] };
        decide(&filter(requires), &sample("/", headers), Some(1_000))
    }

    #[test]
    fn tokens_are_judged_as_envoy_judges_them() {
        let optional = json!({"requires_any": {"requirements": [{"provider_name": "a"}, {"allow_missing": {}}]}});
        let required = json!({"provider_name": "a"});
        let good = json!({"iss": "a.test", "aud": ["x", "y"], "exp": 2_000});
        let refused = |why, status| Decision::Refuse { issuer: "a.test".into(), why, status };
        assert_eq!(decided(&optional, None), Decision::Pass(None));
        assert_eq!(decided(&required, None), refused("Jwt_is_missing", 401));
        assert_eq!(decided(&required, Some(&token(&good))), Decision::Pass(Some(good)));
        for (claims, why, status) in [
            (json!({"iss": "b.test", "aud": "x"}), "Jwt_issuer_is_not_configured", 401),
            (json!({"iss": "a.test", "aud": "z"}), "Audiences_in_Jwt_are_not_allowed", 403),
            (json!({"iss": "a.test", "aud": "x", "exp": 1}), "Jwt_is_expired", 401),
            (json!({"iss": "a.test", "aud": "x", "nbf": 9_000}), "Jwt_not_yet_valid", 401),
        ] {
            let token = token(&claims);
            assert_eq!(decided(&required, Some(&token)), refused(why, status));
            assert_eq!(decided(&optional, Some(&token)), refused(why, status));
        }
    }

    proptest! {
        #[test]
        fn any_token_is_judged(token in "\\PC{0,80}") {
            let _ = decided(&json!({"provider_name": "a"}), Some(&token));
        }
    }
}
