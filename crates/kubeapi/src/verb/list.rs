//! List: the objects of a selection at one revision, whole or in pages.
//!
//! A page's token names the revision of the first page, so all pages together show one state; when
//! that state is too old to be rebuilt, the client is told so and gets a token to go on without it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::select::Selection;
use crate::call::Call;
use crate::query::{ListOptions, Match};
use crate::reply::{Page, Reply};
use crate::status::Status;
use crate::store::Listing;

/// Where the next page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    /// `None` goes on in the newest state.
    revision: Option<u64>,
    /// Objects after this path.
    after: String,
}

impl Token {
    fn encode(&self) -> String {
        let revision = self.revision.map_or(json!(-1), |revision| json!(revision));
        let start = format!("{}\0", self.after);
        let text = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start}).to_string();
        URL_SAFE_NO_PAD.encode(text)
    }

    fn decode(text: &str) -> Result<Self, Status> {
        let bad = |why: &dyn std::fmt::Display| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes =
            URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|error| bad(&error))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|error| bad(&error))?;
        let after = token["start"].as_str().ok_or_else(|| bad(&"no start"))?;
        let revision = token["rv"].as_i64().ok_or_else(|| bad(&"no resource version"))?;
        Ok(Self {
            revision: u64::try_from(revision).ok(),
            after: after.trim_end_matches('\0').to_owned(),
        })
    }
}

pub(crate) fn list(call: &Call, options: &ListOptions) -> Result<Reply, Status> {
    let selection = Selection::new(call, options)?;
    Ok(Reply::Page(page(call, &selection, options)?))
}

pub(crate) fn page(
    call: &Call,
    selection: &Selection,
    options: &ListOptions,
) -> Result<Page, Status> {
    let token = if options.next.is_empty() { None } else { Some(Token::decode(&options.next)?) };
    if token.is_some() && !options.resource_version.is_empty() && options.resource_version != "0" {
        return Err(Status::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    let listing = match &token {
        Some(token) => continued(call, selection, token)?,
        None => first(call, selection, options)?,
    };
    let after = token.map(|token| token.after);
    Ok(cut(listing, selection, after.as_deref(), options.limit))
}

fn first(call: &Call, selection: &Selection, options: &ListOptions) -> Result<Listing, Status> {
    let reader = call.server.store.reader();
    let (group, resource) = selection.definition.storage();
    let namespace = selection.namespace.as_deref();
    let wanted = options.revision()?.filter(|revision| *revision > 0);
    let Some(wanted) = wanted else { return Ok(reader.list(&group, &resource, namespace)) };
    let current = reader.revision();
    if wanted > current {
        return Err(Status::too_large_revision(wanted, current));
    }
    // A limit without a match has always meant exactly this revision.
    let exact = match options.version_match {
        Some(wanted) => wanted == Match::Exact,
        None => options.limit > 0,
    };
    if !exact {
        return Ok(reader.list(&group, &resource, namespace));
    }
    reader.list_at(&group, &resource, namespace, wanted).map_err(|_| {
        Status::expired(format!("The resourceVersion for the provided list is too old: {wanted}"))
    })
}

fn continued(call: &Call, selection: &Selection, token: &Token) -> Result<Listing, Status> {
    let reader = call.server.store.reader();
    let (group, resource) = selection.definition.storage();
    let namespace = selection.namespace.as_deref();
    let Some(revision) = token.revision else {
        return Ok(reader.list(&group, &resource, namespace));
    };
    reader.list_at(&group, &resource, namespace, revision).map_err(|_| {
        let mut status = Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You \
             can start a new list without the continue parameter, or use the continue token in \
             this response to retrieve the remainder of the results. Continuing with the provided \
             token results in an inconsistent list - objects that were created, modified, or \
             deleted between the time the first chunk was returned and now may show up in the \
             list.",
        );
        status.next = Some(Token { revision: None, after: token.after.clone() }.encode());
        status
    })
}

fn cut(listing: Listing, selection: &Selection, after: Option<&str>, limit: usize) -> Page {
    let revision = listing.revision;
    let mut objects: Vec<_> = listing
        .objects
        .into_iter()
        .filter(|object| after.is_none_or(|after| object.key.path().as_str() > after))
        .filter(|object| selection.matches(object))
        .collect();
    let (mut next, mut remaining) = (None, None);
    if limit > 0 && objects.len() > limit {
        if selection.is_everything() {
            remaining = Some(objects.len() - limit);
        }
        objects.truncate(limit);
        let last = objects.last().map(|object| object.key.path()).unwrap_or_default();
        next = Some(Token { revision: Some(revision), after: last }.encode());
    }
    Page { objects, revision, next, remaining }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_way_to_the_client_and_back() {
        for revision in [None, Some(17)] {
            let token = Token { revision, after: "default/a.b".to_owned() };
            assert_eq!(Token::decode(&token.encode()).unwrap(), token);
        }
        for bad in ["abc", "", "e30", "%"] {
            assert_eq!(Token::decode(bad).unwrap_err().code, 400, "{bad:?}");
        }
    }
}
