//! What is watched, as a request: in comes a resource with its selectors, out come URIs.
//!
//! Nothing is sent here.

use http::Request;

/// One collection of objects, possibly narrowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    /// All namespaces when `None`.
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    /// Only names, labels and annotations are asked for.
    pub(crate) metadata_only: bool,
}

/// How objects come per page of a list.
const PAGE: u32 = 500;
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Where a watch begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From<'a> {
    /// With every object there is now, as events.
    Everything,
    /// After this resource version.
    Version(&'a str),
}

impl Target {
    /// For messages: `virtualservices.networking.istio.io`.
    pub(crate) fn name(&self) -> String {
        match &*self.group {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    pub(crate) fn page(&self, after: Option<&str>) -> Result<Request<Vec<u8>>, http::Error> {
        let mut query = self.query();
        query.push_pair("limit", &PAGE.to_string());
        if let Some(token) = after {
            query.push_pair("continue", token);
        }
        self.get(&query, METADATA_LIST)
    }

    /// `lasts` is how many seconds the server keeps the watch open.
    pub(crate) fn watch(
        &self,
        from: From<'_>,
        lasts: u64,
    ) -> Result<Request<Vec<u8>>, http::Error> {
        let mut query = self.query();
        query.push_pair("watch", "true");
        query.push_pair("allowWatchBookmarks", "true");
        query.push_pair("timeoutSeconds", &lasts.to_string());
        match from {
            From::Version(version) => query.push_pair("resourceVersion", version),
            From::Everything => {
                query.push_pair("sendInitialEvents", "true");
                query.push_pair("resourceVersionMatch", "NotOlderThan");
            }
        }
        self.get(&query, METADATA)
    }

    fn query(&self) -> Query {
        let mut query = Query(String::new());
        if let Some(labels) = &self.labels {
            query.push_pair("labelSelector", labels);
        }
        if let Some(fields) = &self.fields {
            query.push_pair("fieldSelector", fields);
        }
        query
    }

    fn path(&self) -> String {
        let root = match &*self.group {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        match &self.namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.plural),
            None => format!("{root}/{}", self.plural),
        }
    }

    fn get(&self, query: &Query, metadata: &str) -> Result<Request<Vec<u8>>, http::Error> {
        let accept = if self.metadata_only { metadata } else { "application/json" };
        Request::get(format!("{}?{}", self.path(), query.0))
            .header(http::header::ACCEPT, accept)
            // A watch compressed as one member per event cannot be read as one stream.
            .header(http::header::ACCEPT_ENCODING, "identity")
            .body(Vec::new())
    }
}

struct Query(String);

impl Query {
    fn push_pair(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(name);
        self.0.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.0.push(char::from(byte));
            } else {
                self.0.push_str(&format!("%{byte:02X}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> Target {
        Target { version: "v1".to_owned(), plural: "pods".to_owned(), ..Target::default() }
    }

    #[test]
    fn selectors_and_namespaces_narrow_a_request() {
        let target = Target {
            namespace: Some("a".to_owned()),
            labels: Some("x in (y,z)".to_owned()),
            fields: Some("status.phase!=Failed".to_owned()),
            ..pods()
        };
        let uri = target.page(Some("to+ken")).unwrap().uri().to_string();
        assert_eq!(
            uri,
            "/api/v1/namespaces/a/pods?labelSelector=x%20in%20%28y%2Cz%29\
             &fieldSelector=status.phase%21%3DFailed&limit=500&continue=to%2Bken"
        );
    }

    #[test]
    fn a_watch_starts_with_everything_or_after_a_version() {
        let uri = pods().watch(From::Version("7"), 9).unwrap().uri().to_string();
        assert_eq!(
            uri,
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=9&resourceVersion=7"
        );
        let uri = pods().watch(From::Everything, 9).unwrap().uri().to_string();
        assert!(
            uri.ends_with("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
            "{uri}"
        );
    }

    #[test]
    fn metadata_alone_is_asked_for_by_media_type() {
        let target = Target {
            group: "apiextensions.k8s.io".to_owned(),
            plural: "customresourcedefinitions".to_owned(),
            metadata_only: true,
            ..pods()
        };
        let request = target.page(None).unwrap();
        assert!(request.uri().path().starts_with("/apis/apiextensions.k8s.io/v1/customres"));
        let accept = request.headers()[http::header::ACCEPT].to_str().unwrap();
        assert!(accept.contains("PartialObjectMetadataList"), "{accept}");
        assert_eq!(target.name(), "customresourcedefinitions.apiextensions.k8s.io");
    }
}
