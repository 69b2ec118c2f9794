//! The query of a request: Kubernetes' list, create, update, patch and delete options.
//!
//! Unknown parameters are ignored, as Kubernetes does; known ones with bad values are refused.

use ironsail_schema::FieldError;

use crate::path::decode_query;
use crate::status::Status;

/// A decoded query string.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: &str) -> Result<Self, Status> {
        let mut pairs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = decode_query(name).zip(decode_query(value));
            pairs.push(decoded.ok_or_else(|| {
                Status::bad_request(format!("invalid URL escape in query parameter {pair:?}"))
            })?);
        }
        Ok(Self(pairs))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Absent is false; present without a value is true, as Go's form decoding has it.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    pub(crate) fn optional_flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Exact,
    NotOlderThan,
}

/// `metav1.ListOptions`, for list and watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) watch: bool,
    pub(crate) bookmarks: bool,
    pub(crate) initial_events: Option<bool>,
    pub(crate) resource_version: String,
    pub(crate) version_match: Option<Match>,
    pub(crate) limit: usize,
    pub(crate) next: String,
    pub(crate) timeout: Option<u64>,
}

impl ListOptions {
    pub(crate) fn parse(query: &Query) -> Result<Self, Status> {
        let text = |name| query.get(name).unwrap_or_default().to_owned();
        let mut errors = Vec::new();
        let version_match = match query.get("resourceVersionMatch") {
            None | Some("") => None,
            Some("Exact") => Some(Match::Exact),
            Some("NotOlderThan") => Some(Match::NotOlderThan),
            Some(other) => {
                errors.push(FieldError::not_supported(
                    "resourceVersionMatch",
                    other,
                    &["Exact", "NotOlderThan", ""],
                ));
                None
            }
        };
        let positive = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        let options = Self {
            label_selector: text("labelSelector"),
            field_selector: text("fieldSelector"),
            watch: query.flag("watch"),
            bookmarks: query.flag("allowWatchBookmarks"),
            initial_events: query.optional_flag("sendInitialEvents"),
            resource_version: text("resourceVersion"),
            version_match,
            limit: positive(query.number("limit")?).unwrap_or(0).try_into().unwrap_or(usize::MAX),
            next: text("continue"),
            timeout: positive(query.number("timeoutSeconds")?),
        };
        if options.watch {
            options.check_watch(&mut errors);
        } else {
            options.check_list(&mut errors);
        }
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(Status::invalid_options("ListOptions", &errors))
        }
    }

    fn check_watch(&self, errors: &mut Vec<FieldError>) {
        let forbidden = |detail| FieldError::forbidden("resourceVersionMatch", detail);
        match (self.initial_events, self.version_match) {
            (None, Some(_)) => errors.push(forbidden(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )),
            (Some(_), None) => errors.push(forbidden(
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            )),
            _ => {}
        }
        if self.version_match == Some(Match::Exact) {
            errors.push(FieldError::not_supported(
                "resourceVersionMatch",
                "Exact",
                &["NotOlderThan"],
            ));
        }
    }

    fn check_list(&self, errors: &mut Vec<FieldError>) {
        if self.initial_events.is_some() {
            errors.push(FieldError::forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for list",
            ));
        }
        let Some(wanted) = self.version_match else { return };
        let mut forbidden =
            |detail| errors.push(FieldError::forbidden("resourceVersionMatch", detail));
        if self.resource_version.is_empty() {
            forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if !self.next.is_empty() {
            forbidden("resourceVersionMatch is forbidden when continue is provided");
        }
        if wanted == Match::Exact && self.resource_version == "0" {
            forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
    }

    /// The wanted revision; `None` for the newest.
    pub(crate) fn revision(&self) -> Result<Option<u64>, Status> {
        if self.resource_version.is_empty() {
            return Ok(None);
        }
        let text = &self.resource_version;
        text.parse().map(Some).map_err(|_| {
            Status::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: {text:?}: \
                 strconv.ParseUint: parsing {text:?}: invalid syntax"
            ))
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// What create, update and patch have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_manager: String,
    pub(crate) field_validation: FieldValidation,
    pub(crate) force: Option<bool>,
}

impl WriteOptions {
    /// `kind` is the Kubernetes type named in errors: `CreateOptions`, `UpdateOptions`, …
    pub(crate) fn parse(query: &Query, kind: &'static str) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        let field_validation = match query.get("fieldValidation") {
            None | Some("") => FieldValidation::default(),
            Some("Ignore") => FieldValidation::Ignore,
            Some("Warn") => FieldValidation::Warn,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", other, &supported));
                FieldValidation::default()
            }
        };
        let field_manager = query.get("fieldManager").unwrap_or_default().to_owned();
        if field_manager.chars().count() > 128 {
            let detail = "may not be more than 128 bytes";
            errors.push(FieldError::new(
                "fieldManager",
                ironsail_schema::Reason::TooLong,
                serde_json::Value::Null,
                detail,
            ));
        }
        if field_manager.chars().any(char::is_control) {
            let detail = "should only contain printable characters";
            errors.push(FieldError::invalid("fieldManager", field_manager.as_str(), detail));
        }
        let force = query.optional_flag("force");
        let options = Self { dry_run, field_manager, field_validation, force };
        if errors.is_empty() { Ok(options) } else { Err(Status::invalid_options(kind, &errors)) }
    }
}

/// Only `All` is a dry run.
pub(crate) fn dry_run<'a>(
    values: impl Iterator<Item = &'a str>,
    errors: &mut Vec<FieldError>,
) -> bool {
    let values: Vec<_> = values.filter(|value| !value.is_empty()).collect();
    if values.iter().any(|value| *value != "All") {
        let value = serde_json::json!(values);
        errors.push(FieldError::not_supported("dryRun", value, &["All"]));
    }
    values.contains(&"All")
}
