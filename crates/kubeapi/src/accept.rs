//! What a client wants to see: the `Accept` header becomes a format and a shape.

use http::HeaderMap;
use http::header::ACCEPT;

use crate::body::Format;
use crate::status::Status;

/// In which shape objects are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Object,
    /// `PartialObjectMetadata`, or its list.
    Metadata,
    /// `Table`, as `kubectl get` shows it.
    Table,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accept {
    pub(crate) format: Format,
    pub(crate) shape: Shape,
}

pub(crate) const JSON: Accept = Accept { format: Format::Json, shape: Shape::Object };

/// One entry of an `Accept` header.
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters = parts.filter_map(|part| part.split_once('=')).collect();
        Self { media, parameters }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }

    fn quality(&self) -> f32 {
        self.get("q").and_then(|q| q.parse().ok()).unwrap_or(1.0)
    }

    fn understood(&self) -> Option<Accept> {
        let format = match self.media {
            "application/json" | "*/*" | "application/*" => Format::Json,
            "application/yaml" => Format::Yaml,
            _ => return None,
        };
        let shape = match (self.get("as"), self.get("g"), self.get("v")) {
            (None, ..) => Shape::Object,
            (Some("Table"), Some("meta.k8s.io"), Some("v1")) => Shape::Table,
            (
                Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
                Some("meta.k8s.io"),
                Some("v1"),
            ) => Shape::Metadata,
            _ => return None,
        };
        Some(Accept { format, shape })
    }
}

/// The best of what the client wants and we have.
pub(crate) fn negotiate(headers: &HeaderMap) -> Result<Accept, Status> {
    let text = header(headers);
    if text.trim().is_empty() {
        return Ok(JSON);
    }
    let mut best: Option<(f32, Accept)> = None;
    for clause in text.split(',').map(Clause::parse) {
        let quality = clause.quality();
        if let Some(accept) = clause.understood()
            && best.is_none_or(|(so_far, _)| quality > so_far)
            && quality > 0.0
        {
            best = Some((quality, accept));
        }
    }
    best.map(|(_, accept)| accept)
        .ok_or_else(|| Status::not_acceptable("application/json, application/yaml"))
}

/// Whether the client understands aggregated discovery.
pub(crate) fn wants_aggregated_discovery(headers: &HeaderMap) -> bool {
    header(headers).split(',').map(Clause::parse).any(|clause| {
        clause.media == "application/json"
            && clause.get("g") == Some("apidiscovery.k8s.io")
            && clause.get("v") == Some("v2")
            && clause.get("as") == Some("APIGroupDiscoveryList")
    })
}

fn header(headers: &HeaderMap) -> String {
    let all: Vec<_> = headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok()).collect();
    all.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(accept: &str) -> Option<(Format, Shape)> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        negotiate(&headers).ok().map(|accept| (accept.format, accept.shape))
    }

    #[test]
    fn the_first_best_that_is_understood_is_taken() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let metadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        for (accept, expected) in [
            ("*/*", Some((Format::Json, Shape::Object))),
            ("application/json", Some((Format::Json, Shape::Object))),
            ("application/yaml", Some((Format::Yaml, Shape::Object))),
            ("application/vnd.kubernetes.protobuf", None),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Some((Format::Json, Shape::Object)),
            ),
            ("text/html", None),
            ("text/html;q=0.9,*/*;q=0.1", Some((Format::Json, Shape::Object))),
            (&format!("{table},application/json"), Some((Format::Json, Shape::Table))),
            (metadata, Some((Format::Json, Shape::Metadata))),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Some((Format::Json, Shape::Object)),
            ),
            ("application/json;as=Nonsense;v=v1;g=meta.k8s.io", None),
        ] {
            assert_eq!(answer(accept), expected, "{accept}");
        }
    }
}
