//! What an attacker brings along: tokens and certificates that were made up, stolen, outlived or meant
//! for others. Some are signed with the cluster's and the mesh's own keys, which no attacker has: then
//! the signature is no reason to refuse them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ironsail_identity::{
    Certificate, Credential, Issuer, KeyKind, PrivateKey, Profile, San, Template, empty_name,
    organization, serial,
};
use ironsail_sys::clock::Clock;
use ironsail_testkit::{Case, SYSTEM};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use rcgen::KeyPair;
use serde_json::{Value, json};

const HOUR: Duration = Duration::from_secs(3600);

/// A token that the cluster itself makes.
pub(crate) async fn real_token(
    case: &Case,
    account: &str,
    audience: &str,
    pod: Option<&str>,
) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(case.client.clone(), &case.namespace);
    let mut spec = json!({"audiences": [audience], "expirationSeconds": 3600});
    if let Some(pod) = pod {
        spec["boundObjectRef"] = json!({"apiVersion": "v1", "kind": "Pod", "name": pod});
    }
    let asked: TokenRequest =
        serde_json::from_value(json!({"spec": spec, "metadata": {}})).unwrap();
    let given = accounts.create_token_request(account, &PostParams::default(), &asked).await;
    given.unwrap().status.unwrap().token.unwrap()
}

/// The parts of a real token, to be put together differently.
pub(crate) struct Forger {
    header: Header,
    claims: Value,
    /// The cluster's own key.
    key: String,
    real: String,
}

impl Forger {
    pub(crate) fn new(case: &Case, real: &str) -> Self {
        let part = real.split('.').nth(1).unwrap();
        let claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
        let header = jsonwebtoken::decode_header(real).unwrap();
        let key = std::fs::read_to_string(signing_key(&case.podlet().dir().join("data"))).unwrap();
        Self { header, claims, key, real: real.to_owned() }
    }

    fn changed(&self, name: &str, value: Value) -> Value {
        let mut claims = self.claims.clone();
        claims[name] = value;
        claims
    }

    /// Signed by the cluster, but for one claim.
    pub(crate) fn but(&self, name: &str, value: Value) -> String {
        let key = EncodingKey::from_rsa_pem(self.key.as_bytes()).unwrap();
        jsonwebtoken::encode(&self.header, &self.changed(name, value), &key).unwrap()
    }

    /// Signed by somebody else, under the name of the cluster's key.
    pub(crate) fn by_another_key(&self) -> String {
        let key = KeyPair::generate().unwrap();
        let header = Header { alg: Algorithm::ES256, ..self.header.clone() };
        let key = EncodingKey::from_ec_pem(key.serialize_pem().as_bytes()).unwrap();
        jsonwebtoken::encode(&header, &self.claims, &key).unwrap()
    }

    /// Signed with the public key as if it were a password.
    pub(crate) fn by_the_public_key(&self) -> String {
        let public = KeyPair::from_pem(&self.key).unwrap().public_key_pem();
        let header = Header { alg: Algorithm::HS256, ..self.header.clone() };
        let key = EncodingKey::from_secret(public.as_bytes());
        jsonwebtoken::encode(&header, &self.claims, &key).unwrap()
    }

    /// The signature of another token.
    pub(crate) fn with_a_borrowed_signature(&self, name: &str, value: Value) -> String {
        let (head, signature) =
            (self.real.split('.').next().unwrap(), self.real.rsplit('.').next().unwrap());
        let claims = URL_SAFE_NO_PAD.encode(self.changed(name, value).to_string());
        format!("{head}.{claims}.{signature}")
    }

    pub(crate) fn unsigned(&self) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(&json!({"alg": "none", "typ": "JWT"})), part(&self.claims))
    }
}

fn signing_key(folder: &std::path::Path) -> std::path::PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.file_name().is_some_and(|name| name == "sa.key") {
                return path;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            }
        }
    }
    panic!("podlet keeps a key for tokens");
}

/// Somebody who signs certificates.
pub(crate) struct Signer {
    pub(crate) key: PrivateKey,
    pub(crate) certificate: Certificate,
}

/// What is unusual about a certificate.
pub(crate) struct Wanted {
    pub(crate) names: Vec<San>,
    pub(crate) serial: [u8; 16],
    pub(crate) from: SystemTime,
    pub(crate) until: SystemTime,
}

impl Wanted {
    pub(crate) fn named(name: &str) -> Self {
        let name = match name.starts_with("spiffe://") {
            true => San::Uri(name.to_owned()),
            false => San::Dns(name.to_owned()),
        };
        let now = Clock::system().now();
        Self { names: vec![name], serial: serial().unwrap(), from: now - HOUR, until: now + HOUR }
    }

    pub(crate) fn ended(name: &str) -> Self {
        let wanted = Self::named(name);
        Self { from: wanted.from - HOUR, until: wanted.from, ..wanted }
    }

    pub(crate) fn to_come(name: &str) -> Self {
        let wanted = Self::named(name);
        Self { from: wanted.until, until: wanted.until + HOUR, ..wanted }
    }
}

impl Signer {
    /// The mesh's own CA.
    pub(crate) async fn of_the_mesh(case: &Case) -> Self {
        let secrets: Api<Secret> = Api::namespaced(case.client.clone(), SYSTEM);
        let data = secrets.get("istio-ca-secret").await.unwrap().data.unwrap();
        let key = PrivateKey::from_pem(&data["ca-key.pem"].0).unwrap();
        let certificate = Certificate::read_pem(&data["ca-cert.pem"].0).unwrap().remove(0);
        Self { key, certificate }
    }

    /// A root that looks like the mesh's.
    pub(crate) fn impostor(like: &Self) -> Self {
        let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
        let now = Clock::system().now();
        let name = organization("cluster.local");
        let template = Template {
            serial: serial().unwrap(),
            subject: &name,
            public_key: key.public_der(),
            sans: &[],
            not_before: now - HOUR,
            not_after: now + HOUR,
            profile: Profile::Authority { path: None },
        };
        let issuer = Issuer {
            name: like.certificate.subject_der(),
            key: &key,
            key_id: like.certificate.key_id(),
        };
        let certificate = Certificate::from_der(&template.sign(&issuer).unwrap()).unwrap();
        Self { key, certificate }
    }

    /// A leaf, with what leads to this signer unless it is a root.
    pub(crate) fn issue(&self, wanted: &Wanted) -> Credential {
        let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
        let template = Template {
            serial: wanted.serial,
            subject: empty_name(),
            public_key: key.public_der(),
            sans: &wanted.names,
            not_before: wanted.from,
            not_after: wanted.until,
            profile: Profile::Leaf,
        };
        let issuer = Issuer {
            name: self.certificate.subject_der(),
            key: &self.key,
            key_id: self.certificate.key_id(),
        };
        let leaf = Certificate::from_der(&template.sign(&issuer).unwrap()).unwrap();
        let mut chain = vec![leaf];
        if !self.certificate.is_self_issued() {
            chain.push(self.certificate.clone());
        }
        Credential::new(Arc::new(key), chain).unwrap()
    }

    /// A leaf that vouches for itself.
    pub(crate) fn itself(name: &str) -> Credential {
        let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
        let wanted = Wanted::named(name);
        let subject = organization("itself");
        let template = Template {
            serial: wanted.serial,
            subject: &subject,
            public_key: key.public_der(),
            sans: &wanted.names,
            not_before: wanted.from,
            not_after: wanted.until,
            profile: Profile::Leaf,
        };
        let issuer = Issuer { name: &subject, key: &key, key_id: None };
        let leaf = Certificate::from_der(&template.sign(&issuer).unwrap()).unwrap();
        Credential::new(Arc::new(key), vec![leaf]).unwrap()
    }

    /// Who takes a leaf of this signer for an authority.
    pub(crate) fn below(leaf: &Credential) -> Self {
        let key = PrivateKey::from_pem(leaf.key().to_pem().as_bytes()).unwrap();
        Self { key, certificate: leaf.leaf().clone() }
    }

    /// The list of certificates that this signer took back.
    pub(crate) fn revoke(&self, serials: &[[u8; 16]]) -> String {
        let key = KeyPair::from_pem(&self.key.to_pem()).unwrap();
        let issuer = rcgen::Issuer::from_ca_cert_der(self.certificate.der(), key).unwrap();
        let own = self.certificate.key_id().expect("an authority's key has a name");
        let revoked = |serial: &[u8; 16]| rcgen::RevokedCertParams {
            serial_number: rcgen::SerialNumber::from_slice(serial),
            revocation_time: rcgen::date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = rcgen::CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2024, 1, 1),
            next_update: rcgen::date_time_ymd(4000, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: rcgen::KeyIdMethod::PreSpecified(own.to_vec()),
        };
        params.signed_by(&issuer).unwrap().pem().unwrap()
    }
}
