//! Messages into `Any` and out of it.

use crate::google::protobuf::Any;
use prost::Name;

/// Why an `Any` was not the message that was expected.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UnpackError {
    #[error("expected a {expected}, got a {actual}")]
    Type { expected: String, actual: String },
    #[error("decoding a {name}")]
    Decode {
        name: String,
        #[source]
        source: prost::DecodeError,
    },
}

/// `message` with its type URL.
pub fn pack<M: Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec().into() }
}

/// The message in `any`, which must be of that type. Only the part of the URL after the last slash
/// counts, as everywhere in Envoy's API.
pub fn unpack<M: Name + Default>(any: &Any) -> Result<M, UnpackError> {
    let expected = M::full_name();
    let actual = any.type_url.rsplit('/').next().unwrap_or_default();
    if actual != expected {
        return Err(UnpackError::Type { expected, actual: actual.to_owned() });
    }
    M::decode(any.value.clone()).map_err(|source| UnpackError::Decode { name: expected, source })
}

#[cfg(test)]
mod tests {
    use super::{UnpackError, pack, unpack};
    use crate::envoy::config::cluster::v3::Cluster;
    use crate::envoy::config::listener::v3::Listener;

    #[test]
    fn what_was_packed_comes_out_again() {
        let cluster = Cluster { name: "a".into(), ..Default::default() };
        let any = pack(&cluster);
        assert_eq!(any.type_url, "type.googleapis.com/envoy.config.cluster.v3.Cluster");
        assert_eq!(unpack::<Cluster>(&any), Ok(cluster));
    }

    #[test]
    fn another_type_is_refused_by_name() {
        let error = unpack::<Listener>(&pack(&Cluster::default())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected a envoy.config.listener.v3.Listener, got a envoy.config.cluster.v3.Cluster"
        );
    }

    #[test]
    fn broken_bytes_are_an_error() {
        let mut any = pack(&Cluster::default());
        any.value = bytes::Bytes::from_static(&[0xff, 0xff]);
        assert!(matches!(unpack::<Cluster>(&any), Err(UnpackError::Decode { .. })));
    }
}
