//! What differs between the two variants of the protocol.

use ironsail_proto::Message;
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use ironsail_proto::google::protobuf::Any;
use ironsail_proto::google::rpc;
use ironsail_xds::Variant as Kind;

pub(super) trait Variant: Message + Clone + Default + 'static {
    type Response: Message + Default + 'static;
    const KIND: Kind;

    fn node(&self) -> Option<&Node>;

    /// Asks for a type; `names` empty: for all there is.
    fn ask(type_url: &str, names: &[String], node: Option<Node>) -> Self;

    /// Says something of which nothing is wanted back.
    fn say(type_url: &str, error: Option<String>) -> Self;

    fn answer(response: &Self::Response, error: Option<String>) -> Self;

    fn type_url(response: &Self::Response) -> &str;

    /// Cheap: the contents are shared.
    fn resources(response: &Self::Response) -> Vec<Any>;

    /// Puts others in the place of `resources`, in the same order.
    fn set_resources(response: &mut Self::Response, resources: Vec<Any>);

    /// Names of what is there no more, where the variant says so.
    fn removed(_response: &Self::Response) -> &[String] {
        &[]
    }
}

/// What went wrong inside, for whoever is told.
fn trouble(error: Option<String>) -> Option<rpc::Status> {
    error.map(|message| rpc::Status { code: 13, message, ..rpc::Status::default() })
}

fn refusal(error: Option<String>) -> Option<rpc::Status> {
    error.map(|message| rpc::Status { code: 3, message, ..rpc::Status::default() })
}

impl Variant for DiscoveryRequest {
    type Response = DiscoveryResponse;
    const KIND: Kind = Kind::StateOfTheWorld;

    fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    fn ask(type_url: &str, names: &[String], node: Option<Node>) -> Self {
        let (type_url, resource_names) = (type_url.to_owned(), names.to_vec());
        Self { type_url, resource_names, node, ..Self::default() }
    }

    fn say(type_url: &str, error: Option<String>) -> Self {
        let (type_url, error_detail) = (type_url.to_owned(), trouble(error));
        Self { type_url, error_detail, ..Self::default() }
    }

    fn answer(response: &Self::Response, error: Option<String>) -> Self {
        Self {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            version_info: response.version_info.clone(),
            error_detail: refusal(error),
            ..Self::default()
        }
    }

    fn type_url(response: &Self::Response) -> &str {
        &response.type_url
    }

    fn resources(response: &Self::Response) -> Vec<Any> {
        response.resources.clone()
    }

    fn set_resources(response: &mut Self::Response, resources: Vec<Any>) {
        response.resources = resources;
    }
}

impl Variant for DeltaDiscoveryRequest {
    type Response = DeltaDiscoveryResponse;
    const KIND: Kind = Kind::Delta;

    fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    fn ask(type_url: &str, names: &[String], node: Option<Node>) -> Self {
        let (type_url, resource_names_subscribe) = (type_url.to_owned(), names.to_vec());
        Self { type_url, resource_names_subscribe, node, ..Self::default() }
    }

    fn say(type_url: &str, error: Option<String>) -> Self {
        let (type_url, error_detail) = (type_url.to_owned(), trouble(error));
        Self { type_url, error_detail, ..Self::default() }
    }

    fn answer(response: &Self::Response, error: Option<String>) -> Self {
        Self {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            error_detail: refusal(error),
            ..Self::default()
        }
    }

    fn type_url(response: &Self::Response) -> &str {
        &response.type_url
    }

    fn resources(response: &Self::Response) -> Vec<Any> {
        response.resources.iter().filter_map(|one| one.resource.clone()).collect()
    }

    fn set_resources(response: &mut Self::Response, resources: Vec<Any>) {
        let places = response.resources.iter_mut().filter_map(|one| one.resource.as_mut());
        for (place, resource) in places.zip(resources) {
            *place = resource;
        }
    }

    fn removed(response: &Self::Response) -> &[String] {
        &response.removed_resources
    }
}
