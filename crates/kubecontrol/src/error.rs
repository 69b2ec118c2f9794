//! What can go wrong: one request of a controller, or a controller as a whole.

/// The controllers ended although nobody asked them to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the {name} controller broke down")]
    Controller { name: &'static str, source: tokio::task::JoinError },
    #[error("the {name} controller ended by itself")]
    Ended { name: &'static str },
}

/// One request to the API that failed. The object stays in the queue and is tried again.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {object}: {}", reason(source))]
pub(crate) struct ActionError {
    pub(crate) verb: &'static str,
    pub(crate) object: String,
    pub(crate) source: Box<kube::Error>,
}

/// The API's own sentence, which already names the object.
fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

impl ActionError {
    pub(crate) fn new(verb: &'static str, object: impl Into<String>, source: kube::Error) -> Self {
        Self { verb, object: object.into(), source: Box::new(source) }
    }

    fn status(&self) -> Option<&kube::core::Status> {
        match &*self.source {
            kube::Error::Api(status) => Some(status),
            _ => None,
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_not_found)
    }

    pub(crate) fn is_already_exists(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_already_exists)
    }

    /// Somebody else changed or removed the object first.
    pub(crate) fn is_race(&self) -> bool {
        self.status().is_some_and(|s| s.is_conflict() || s.is_not_found())
    }

    /// Refused because the namespace is being deleted.
    pub(crate) fn is_ending_namespace(&self) -> bool {
        let causes = self.status().and_then(|s| s.details.as_ref()).map(|d| &d.causes);
        causes.is_some_and(|causes| causes.iter().any(|c| c.reason == "NamespaceTerminating"))
            || self.is_not_found()
    }

    /// What the API said, for events and conditions.
    pub(crate) fn message(&self) -> String {
        reason(&self.source)
    }
}
