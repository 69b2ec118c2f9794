//! Tokens that callers show: any text, good ones with changed bytes, and signed ones that say anything.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ironsail_ca::{Authenticator, Caller, Domains, KeySource, Method, OfflineTokens};
use ironsail_identity::{KeyKind, PrivateKey};
use ironsail_names::TrustDomains;
use ironsail_sys::clock::Clock;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use crate::json;

const ISSUER: &str = "https://a";
const NOW: u64 = 1_800_000_000;

struct Issuer {
    key: EncodingKey,
    good: String,
    known: Authenticator,
}

fn claims() -> Value {
    json!({"iss": ISSUER, "sub": "system:serviceaccount:a:b", "aud": ["istio-ca"], "exp": NOW + 3600,
        "kubernetes.io": {"namespace": "a", "serviceaccount": {"name": "b", "uid": "1"},
            "pod": {"name": "p", "uid": "2"}}})
}

static ONE: LazyLock<Issuer> = LazyLock::new(|| {
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    // The end of the public key is its point: 4, x, y.
    let public = key.public_der();
    let point = &public[public.len() - 64..];
    let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let set = json!({"keys": [{"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": "k",
        "x": part(&point[..32]), "y": part(&point[32..])}]});
    let domains = Domains::new(TrustDomains::new("td".parse().unwrap(), []));
    let clock = Clock::fixed(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(NOW));
    let audiences = vec!["istio-ca".to_owned()];
    let keys = KeySource::Text(set.to_string());
    let method = OfflineTokens::new(ISSUER, audiences, keys, domains, clock);
    let key = EncodingKey::from_ec_pem(key.to_pem().as_bytes()).unwrap();
    let good = sign(&key, &claims());
    let known = Authenticator::new([Arc::new(method) as Arc<dyn Method>]);
    Issuer { key, good, known }
});

fn sign(key: &EncodingKey, claims: &Value) -> String {
    let header = Header { kid: Some("k".to_owned()), ..Header::new(Algorithm::ES256) };
    jsonwebtoken::encode(&header, claims, key).unwrap()
}

fn show(token: &[u8]) -> Option<Caller> {
    let mut headers = http::HeaderMap::new();
    let value = http::HeaderValue::from_bytes(&[b"Bearer ", token].concat()).ok()?;
    headers.insert(http::header::AUTHORIZATION, value);
    let extensions = http::Extensions::new();
    futures::executor::block_on(ONE.known.authenticate(&headers, &extensions)).ok()
}

fn said(u: &mut Unstructured<'_>) -> Result<()> {
    let mut claims = claims();
    for _ in 0..u.int_in_range(0..=3)? {
        let json::Json(with) = u.arbitrary()?;
        json::graft(u, &mut claims, with)?;
    }
    let Some(caller) = show(sign(&ONE.key, &claims).as_bytes()) else { return Ok(()) };
    assert_eq!(claims["iss"], ISSUER, "of the issuer");
    let wanted = json!("istio-ca");
    let meant = claims["aud"] == wanted
        || claims["aud"].as_array().is_some_and(|all| all.contains(&wanted));
    assert!(meant, "for us: {claims}");
    #[expect(clippy::cast_precision_loss, reason = "a time in this century")]
    let now = NOW as f64;
    assert!(claims["exp"].as_f64().is_some_and(|end| end > now - 61.0), "not over: {claims}");
    let (namespace, account) = (caller.namespace().as_str(), caller.service_account().as_str());
    assert_eq!(claims["sub"], format!("system:serviceaccount:{namespace}:{account}"));
    Ok(())
}

pub(crate) fn target(bytes: &[u8]) {
    assert!(show(bytes).is_none(), "nobody guesses a token");
    let good = show(ONE.good.as_bytes()).expect("the good one is known");
    if let Some(changes) = crate::made::<Vec<(u16, u8)>>(bytes) {
        let other = crate::changed(ONE.good.as_bytes(), &changes);
        // A signature may be written in two ways; what is signed may not.
        assert!(show(&other).is_none_or(|caller| caller == good), "no other caller comes of it");
    }
    let _ = said(&mut Unstructured::new(bytes));
}
