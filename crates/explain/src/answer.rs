//! What is answered: steps, where each comes from, and the outcome; as text and as JSON.

use std::fmt;

use serde::Serialize;

/// Which proxy takes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Client,
    Server,
}

/// An object, and the field of it, that something comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// `KIND NAMESPACE/NAME`.
    pub object: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Origin {
    pub(crate) fn new(object: impl Into<String>, field: impl Into<String>) -> Self {
        Self { object: object.into(), field: field.into() }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.object),
            field => write!(f, "{} {field}", self.object),
        }
    }
}

/// One step of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    pub side: Side,
    /// `name`, `listener`, `chain`, `route`, `cluster`, `endpoint`, `tls`, `policy`, `token`, `filter`.
    pub what: &'static str,
    pub text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<Origin>,
    /// Not decisive, but probably not what was meant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// What looks wrong on the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    pub text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<Origin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It reaches the application, which answers as it likes.
    Delivered,
    /// A proxy answers as it was told to.
    Answered,
    /// A policy says no.
    Refused,
    /// It cannot be delivered.
    Failed,
    /// It leaves what is known.
    Unknown,
}

/// How it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    pub verdict: Verdict,
    /// What the client gets, if a proxy decides it; none for a connection that breaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// As in access logs and metrics.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub flags: String,
    /// As in access logs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub details: String,
    pub text: String,
    /// What to look at to change it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub culprits: Vec<Origin>,
}

impl Outcome {
    pub(crate) fn new(verdict: Verdict, text: impl Into<String>) -> Self {
        Self {
            verdict,
            status: None,
            flags: String::new(),
            details: String::new(),
            text: text.into(),
            culprits: Vec::new(),
        }
    }

    pub(crate) fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Flags and details as they are logged.
    pub(crate) fn logged(mut self, flags: &str, details: impl Into<String>) -> Self {
        self.flags = flags.to_owned();
        self.details = details.into();
        self
    }

    pub(crate) fn by(mut self, culprits: impl IntoIterator<Item = Origin>) -> Self {
        self.culprits.extend(culprits);
        self
    }

    pub fn is_good(&self) -> bool {
        matches!(self.verdict, Verdict::Delivered | Verdict::Answered)
    }
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    pub request: String,
    pub source: String,
    pub steps: Vec<Step>,
    pub outcome: Outcome,
    /// Percent of the requests that take this way, where routes are weighted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<u32>,
    /// The other ways.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Answer>,
    /// Pods of which the proxy's configuration would tell more.
    #[serde(skip)]
    pub needs: Vec<String>,
}

impl Answer {
    /// Whether every way ends well.
    pub fn is_good(&self) -> bool {
        self.outcome.is_good() && self.others.iter().all(Self::is_good)
    }

    /// Every object that is named as the cause of something.
    pub fn culprits(&self) -> Vec<&Origin> {
        let warned = self.steps.iter().flat_map(|step| &step.warnings).flat_map(|w| &w.from);
        self.outcome.culprits.iter().chain(warned).collect()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        let mut side = None;
        for step in &self.steps {
            if side != Some(step.side) {
                side = Some(step.side);
                let who = match step.side {
                    Side::Client => "at the client",
                    Side::Server => "at the server",
                };
                writeln!(f, "{indent}{who}:")?;
            }
            writeln!(f, "{indent}  {:<9} {}", step.what, step.text)?;
            for origin in &step.from {
                writeln!(f, "{indent}  {:<9}   from {origin}", "")?;
            }
            for warning in &step.warnings {
                writeln!(f, "{indent}  {:<9} ! {}", "", warning.text)?;
                for origin in &warning.from {
                    writeln!(f, "{indent}  {:<9}   see {origin}", "")?;
                }
            }
        }
        let outcome = &self.outcome;
        let status = outcome.status.map(|status| format!("{status} ")).unwrap_or_default();
        writeln!(f, "{indent}outcome: {status}{}", outcome.text)?;
        if !outcome.flags.is_empty() || !outcome.details.is_empty() {
            let logged = [outcome.flags.as_str(), &outcome.details].join(" ");
            writeln!(f, "{indent}  logged as {}", logged.trim())?;
        }
        for culprit in &outcome.culprits {
            writeln!(f, "{indent}  because of {culprit}")?;
        }
        for other in &self.others {
            writeln!(
                f,
                "\n{indent}or, for {} % of the requests:",
                other.share.unwrap_or_default()
            )?;
            other.write(f, &format!("{indent}  "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} from {}", self.request, self.source)?;
        if let Some(share) = self.share {
            writeln!(f, "the way of {share} % of the requests:")?;
        }
        self.write(f, "")
    }
}
