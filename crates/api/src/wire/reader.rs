//! Where a reader stands in an object, and what it found wrong there.

use serde_json::{Map, Value};

use super::Name;

/// More than this is not reported of one object: nobody reads on.
const MOST: usize = 64;
/// Deeper than any of our types; a guard, not a limit that anyone meets.
const DEEPEST: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// No field of ours has this name.
    Unknown,
    /// The value cannot be what the field needs, for this reason.
    Invalid(String),
}

/// One thing wrong at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// `http[0].route[1].weight`
    pub field: String,
    pub what: What,
}

enum Step {
    Field(String),
    Index(usize),
}

/// Collects problems while values are read.
pub struct Reader {
    path: Vec<Step>,
    problems: Vec<Problem>,
    /// Kubernetes' own objects have many fields that we leave out on purpose.
    unknown: bool,
}

impl Reader {
    #[must_use]
    #[expect(clippy::new_without_default, reason = "there is no such thing as a default reader")]
    pub fn new() -> Self {
        Self { path: Vec::new(), problems: Vec::new(), unknown: true }
    }

    /// Does not report fields that the type lacks.
    #[must_use]
    pub fn trimming() -> Self {
        Self { unknown: false, ..Self::new() }
    }

    #[must_use]
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    pub(crate) fn enter_field(&mut self, name: &str) {
        self.path.push(Step::Field(name.to_owned()));
    }

    pub(crate) fn enter_index(&mut self, index: usize) {
        self.path.push(Step::Index(index));
    }

    pub(crate) fn leave(&mut self) {
        self.path.pop();
    }

    fn place(&self) -> String {
        let mut place = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) if place.is_empty() => place.push_str(name),
                Step::Field(name) => place.extend([".", name]),
                Step::Index(index) => place.push_str(&format!("[{index}]")),
            }
        }
        place
    }

    /// The value here is of no use.
    pub fn invalid(&mut self, reason: impl Into<String>) {
        self.push(What::Invalid(reason.into()));
    }

    pub(crate) fn wrong_type(&mut self, wanted: &str, value: &Value) {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        self.invalid(format!("must be {wanted}, not {found}"));
    }

    fn push(&mut self, what: What) {
        if self.problems.len() < MOST {
            self.problems.push(Problem { field: self.place(), what });
        }
    }

    /// The object whose fields are to be read; `None`, and a problem, if it is none.
    pub fn open<'a>(&mut self, value: &'a Value) -> Option<Open<'a>> {
        match value {
            Value::Object(_) if self.path.len() > DEEPEST => {
                self.invalid("is nested too deeply");
                None
            }
            Value::Object(map) => Some(Open { map, taken: Vec::new() }),
            Value::Null => None,
            other => {
                self.wrong_type("an object", other);
                None
            }
        }
    }
}

/// An object that is being read; knows which of its fields nobody asked for.
pub struct Open<'a> {
    map: &'a Map<String, Value>,
    taken: Vec<&'a str>,
}

impl<'a> Open<'a> {
    /// The value of a field, unless absent or null.
    pub(crate) fn take(
        &mut self,
        name: &Name,
        reader: &mut Reader,
    ) -> Option<(&'a str, &'a Value)> {
        let found = self.map.get_key_value(&name.camel);
        let by_proto_name =
            (name.camel != name.snake).then(|| self.map.get_key_value(name.snake)).flatten();
        if let (Some(_), Some((second, _))) = (found, by_proto_name) {
            self.taken.push(second);
            reader.enter_field(second);
            reader.invalid(format!("says the same as {}; set only one of them", name.camel));
            reader.leave();
        }
        let (key, value) = found.or(by_proto_name)?;
        self.taken.push(key);
        (!value.is_null()).then_some((key.as_str(), value))
    }

    /// Reports the fields that nobody took.
    pub(crate) fn finish(self, reader: &mut Reader) {
        if !reader.unknown || self.taken.len() == self.map.len() {
            return;
        }
        for key in self.map.keys().filter(|key| !self.taken.contains(&key.as_str())) {
            reader.enter_field(key);
            reader.push(What::Unknown);
            reader.leave();
        }
    }
}
