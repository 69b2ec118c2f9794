//! One request, or many of the same, and what must be true of the answers.

use crate::traffic::Answer;

type Check = Box<dyn Fn(&[Answer]) -> Result<(), String>>;

/// Requests to one URL.
pub struct Ask {
    pub(super) url: String,
    /// More arguments of `echo call`.
    pub(super) args: Vec<String>,
    pub(super) count: u32,
    /// Another pod than the usual client.
    pub(super) from: Option<String>,
    /// Its host is not the one that the marked VirtualService is for.
    pub(super) unmarked: bool,
    checks: Vec<Check>,
}

/// A request to `url`, whose scheme chooses the protocol.
pub fn ask(url: &str) -> Ask {
    Ask {
        url: url.to_owned(),
        args: Vec::new(),
        count: 1,
        from: None,
        unmarked: false,
        checks: Vec::new(),
    }
}

impl Ask {
    /// With a header, `Name: value`.
    #[must_use]
    pub fn header(self, line: &str) -> Self {
        self.args(&["-H", line])
    }

    /// With more arguments of `echo call`.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    #[must_use]
    pub fn method(self, method: &str) -> Self {
        self.args(&["-X", method])
    }

    /// So many, one after the other.
    #[must_use]
    pub fn times(mut self, count: u32) -> Self {
        self.count = count;
        self
    }

    /// From another pod than the usual client.
    #[must_use]
    pub fn from(mut self, pod: &str) -> Self {
        self.from = Some(pod.to_owned());
        self
    }

    /// Do not wait for the rules by way of this one.
    #[must_use]
    pub fn unmarked(mut self) -> Self {
        self.unmarked = true;
        self
    }

    /// All answers have this status: HTTP's, or gRPC's code.
    #[must_use]
    pub fn status(self, wanted: u16) -> Self {
        self.every(move |answer| answer.status == Some(wanted), format!("status {wanted}"))
    }

    /// All answers come from pods of this version.
    #[must_use]
    pub fn version(self, wanted: &str) -> Self {
        self.reports("/version", wanted)
    }

    /// The server's report has this text at `pointer`.
    #[must_use]
    pub fn reports(self, pointer: &str, wanted: &str) -> Self {
        let (pointer, wanted) = (pointer.to_owned(), wanted.to_owned());
        let what = format!("{wanted:?} at {pointer}");
        let is = move |answer: &Answer| {
            answer.body.pointer(&pointer).and_then(serde_json::Value::as_str) == Some(&wanted)
        };
        self.every(is, what)
    }

    /// The server saw this header with this value.
    #[must_use]
    pub fn sees(self, header: &str, wanted: &str) -> Self {
        let (header, wanted) = (header.to_owned(), wanted.to_owned());
        let what = format!("the server sees {header}: {wanted}");
        let is = move |answer: &Answer| {
            let values = answer.body["headers"][&header].as_array();
            values.is_some_and(|values| values.iter().any(|value| *value == wanted))
        };
        self.every(is, what)
    }

    /// The server did not see this header.
    #[must_use]
    pub fn misses(self, header: &str) -> Self {
        let (header, what) = (header.to_owned(), format!("the server does not see {header}"));
        self.every(move |answer| answer.body["headers"].get(&header).is_none(), what)
    }

    /// The answer has this header with this value.
    #[must_use]
    pub fn returns(self, header: &str, wanted: &str) -> Self {
        let (header, wanted) = (header.to_owned(), wanted.to_owned());
        let what = format!("{header}: {wanted} comes back");
        let is = move |answer: &Answer| {
            answer.headers.get(&header).is_some_and(|values| values.contains(&wanted))
        };
        self.every(is, what)
    }

    /// The answer does not have this header.
    #[must_use]
    pub fn withholds(self, header: &str) -> Self {
        let (header, what) = (header.to_owned(), format!("{header} does not come back"));
        self.every(move |answer| !answer.headers.contains_key(&header), what)
    }

    /// Nothing answers.
    #[must_use]
    pub fn fails(self) -> Self {
        self.every(|answer| answer.error.is_some(), "nothing answers".to_owned())
    }

    /// Something answers.
    #[must_use]
    pub fn works(self) -> Self {
        self.every(|answer| answer.error.is_none(), "something answers".to_owned())
    }

    /// `what` is true of all answers together.
    #[must_use]
    pub fn all(mut self, what: &'static str, is: impl Fn(&[Answer]) -> bool + 'static) -> Self {
        let check = move |answers: &[Answer]| {
            if is(answers) { Ok(()) } else { Err(format!("wanted: {what}")) }
        };
        self.checks.push(Box::new(check));
        self
    }

    /// How many answers come from pods of `version`.
    #[must_use]
    pub fn share(mut self, version: &str, wanted: std::ops::RangeInclusive<usize>) -> Self {
        let version = version.to_owned();
        let check = move |answers: &[Answer]| {
            let count = answers.iter().filter(|a| a.body["version"] == version).count();
            if wanted.contains(&count) {
                return Ok(());
            }
            Err(format!("{count} of {version}, wanted {wanted:?}"))
        };
        self.checks.push(Box::new(check));
        self
    }

    fn every(mut self, is: impl Fn(&Answer) -> bool + 'static, what: String) -> Self {
        let check = move |answers: &[Answer]| match answers.iter().find(|answer| !is(answer)) {
            None => Ok(()),
            Some(bad) => Err(format!("wanted: {what}; got {bad:?}")),
        };
        self.checks.push(Box::new(check));
        self
    }

    pub(super) fn judge(&self, answers: &[Answer]) -> Result<(), String> {
        self.checks.iter().try_for_each(|check| check(answers))
    }

    pub(super) fn is_http(&self) -> bool {
        let scheme = self.url.split("://").next().unwrap_or_default();
        matches!(scheme, "http" | "h2c")
    }

    /// The same client and host, another path, once.
    pub(super) fn probe(&self, path: &str) -> Self {
        let (scheme, rest) = self.url.split_once("://").expect("a URL has a scheme");
        let host = rest.split('/').next().unwrap_or(rest);
        let mut args = Vec::new();
        let mut left = self.args.iter();
        while let Some(arg) = left.next() {
            // Of the arguments only the name of the host counts.
            if arg == "-H" {
                let line = left.next().expect("-H has a value");
                if line.to_ascii_lowercase().starts_with("host:") {
                    args.extend(["-H".to_owned(), line.clone()]);
                }
            }
        }
        let url = format!("{scheme}://{host}{path}");
        Self { args, from: self.from.clone(), ..ask(&url) }
    }
}
