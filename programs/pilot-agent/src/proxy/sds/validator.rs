//! What certificates of peers are held against, as Envoy reads it.
//!
//! Roots of other trust domains go into Envoy's SPIFFE validator, which holds a certificate against the
//! roots of the domain that it names and no others. That validator knows no revocation lists: while
//! there is one, other domains are not trusted, for both cannot be had.

use ironsail_identity::RootBundle;
use ironsail_names::TrustDomain;
use ironsail_proto::Message;
use ironsail_proto::envoy::config::core::v3::{DataSource, TypedExtensionConfig};
use ironsail_proto::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, secret,
};
use ironsail_proto::google::protobuf::Any;
use tracing::warn;

use super::inline;
use crate::proxy::trust::Roots;

const NAME: &str = "envoy.tls.cert_validator.spiffe";
const TYPE: &str =
    "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig";

#[derive(Clone, PartialEq, prost::Message)]
struct SpiffeConfig {
    #[prost(message, repeated, tag = "1")]
    trust_domains: Vec<Domain>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Domain {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    trust_bundle: Option<DataSource>,
}

pub(super) fn roots(pem: &str, crl: Option<&str>) -> secret::Type {
    secret::Type::ValidationContext(CertificateValidationContext {
        trusted_ca: inline(pem),
        crl: crl.and_then(inline),
        ..CertificateValidationContext::default()
    })
}

pub(super) fn of_mesh(trusted: &Roots, crl: Option<&str>) -> secret::Type {
    if trusted.others.is_empty() {
        return roots(trusted.own.pem(), crl);
    }
    if crl.is_some() {
        warn!(target: "sds", "other trust domains are not trusted while there is a revocation list");
        return roots(trusted.own.pem(), crl);
    }
    let domain = |name: &TrustDomain, roots: &RootBundle| Domain {
        name: name.to_string(),
        trust_bundle: inline(roots.pem()),
    };
    let mut trust_domains: Vec<Domain> =
        trusted.names.iter().map(|name| domain(name, &trusted.own)).collect();
    for anchors in &trusted.others {
        trust_domains.extend(anchors.domains.iter().map(|name| domain(name, &anchors.roots)));
    }
    let value = SpiffeConfig { trust_domains }.encode_to_vec().into();
    let config = Any { type_url: TYPE.to_owned(), value };
    secret::Type::ValidationContext(CertificateValidationContext {
        custom_validator_config: Some(TypedExtensionConfig {
            name: NAME.to_owned(),
            typed_config: Some(config),
        }),
        ..CertificateValidationContext::default()
    })
}
