//! The functions a template may call: by name, with the types of their parameters.
//!
//! [`Functions`] starts as one of four sets and takes more from the caller, who adds whatever needs
//! the world outside: a pod, the environment, chance, the clock.

mod builtin;
mod compare;
mod encode;
mod escape;
mod helm;
mod injection;
mod list;
mod logic;
mod map;
mod merge;
mod number;
mod path;
mod pattern;
mod refused;
#[cfg(test)]
mod tests;
mod text;
mod version;
mod words;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Fault;
use crate::exec::Run;
use crate::value::Value;

/// What a function gives.
pub type Outcome = Result<Value, Fault>;

/// The type of a parameter. Arguments of another type are refused before the function runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    Any,
    Str,
    Int,
    Float,
    Bool,
    /// `map[string]interface {}`; nothing at all is passed on as [`Value::Nil`].
    Map,
    /// A map of any type.
    AnyMap,
}

type Native = fn(&mut Run<'_>, &[Value]) -> Outcome;
type Given = dyn Fn(&[Value]) -> Outcome + Send + Sync;
type Method = dyn Fn(&Value, &str, &[Value]) -> Option<Outcome> + Send + Sync;

/// One row of a table of functions: name, parameters, the type of further ones, body.
type Row = (&'static str, &'static [Param], Option<Param>, Native);

#[derive(Clone)]
enum Body {
    Native(Native),
    Given(Arc<Given>),
    /// `and` and `or`: the truth at which they stop.
    ShortCircuit(bool),
    Refused(&'static str),
}

#[derive(Clone)]
pub(crate) struct Function {
    fixed: Cow<'static, [Param]>,
    rest: Option<Param>,
    body: Body,
}

/// Functions by name.
#[derive(Clone, Default)]
pub struct Functions {
    table: BTreeMap<Cow<'static, str>, Function>,
    methods: Option<Arc<Method>>,
}

impl Functions {
    /// What the language itself has.
    pub fn go() -> Self {
        let mut functions = Self::default();
        functions.rows(builtin::TABLE);
        for (name, stops_at) in [("and", false), ("or", true)] {
            functions.insert(name, &[Param::Any], Some(Param::Any), Body::ShortCircuit(stops_at));
        }
        functions.insert("call", &[], Some(Param::Any), Body::Refused("data holds no functions"));
        functions
    }

    /// And the library that most users of templates know.
    pub fn sprig() -> Self {
        let mut functions = Self::go();
        let tables = [
            encode::TABLE,
            list::TABLE,
            logic::TABLE,
            map::TABLE,
            number::TABLE,
            path::TABLE,
            pattern::TABLE,
            text::TABLE,
            version::TABLE,
            words::TABLE,
        ];
        tables.into_iter().for_each(|rows| functions.rows(rows));
        for (names, why) in refused::TABLE {
            for name in *names {
                functions.insert(name, &[], Some(Param::Any), Body::Refused(why));
            }
        }
        functions
    }

    /// And what Helm adds. Charts may not read the environment, so that is gone.
    pub fn helm() -> Self {
        let mut functions = Self::sprig();
        functions.rows(helm::TABLE);
        for name in ["env", "expandenv"] {
            functions.table.remove(name);
        }
        functions.yaml(|_| Err("no YAML reader was given".to_owned()));
        functions
    }

    /// Sprig with the functions of injection templates, some of which replace sprig's.
    pub fn injection() -> Self {
        let mut functions = Self::sprig();
        functions.rows(injection::TABLE);
        functions
    }

    /// Adds or replaces a function: `params` are its parameters, `rest` is the type of any more.
    pub fn add(
        &mut self,
        name: &str,
        params: &[Param],
        rest: Option<Param>,
        body: impl Fn(&[Value]) -> Outcome + Send + Sync + 'static,
    ) {
        let function =
            Function { fixed: params.to_vec().into(), rest, body: Body::Given(Arc::new(body)) };
        self.table.insert(name.to_owned().into(), function);
    }

    /// What `.x.Name arg` means where `x` has no field `Name` or gets arguments: the receiver, the
    /// name and the arguments come in; `None` leaves it to the usual rules.
    pub fn methods(
        &mut self,
        method: impl Fn(&Value, &str, &[Value]) -> Option<Outcome> + Send + Sync + 'static,
    ) {
        self.methods = Some(Arc::new(method));
    }

    /// Reads YAML for `fromYaml` and `fromYamlArray` of Helm.
    pub fn yaml(
        &mut self,
        read: impl Fn(&str) -> Result<serde_json::Value, String> + Send + Sync + 'static,
    ) {
        helm::add_yaml(self, Arc::new(read));
    }

    /// Gives chance to `randAlphaNum` and its kin: `next` is any number below its argument.
    pub fn random(&mut self, next: impl Fn(u32) -> u32 + Send + Sync + 'static) {
        let next: Arc<dyn Fn(u32) -> u32 + Send + Sync> = Arc::new(next);
        refused::add_random(self, &next);
    }

    fn rows(&mut self, rows: &[Row]) {
        for (name, fixed, rest, native) in rows {
            self.insert(name, fixed, *rest, Body::Native(*native));
        }
    }

    fn insert(
        &mut self,
        name: &'static str,
        fixed: &'static [Param],
        rest: Option<Param>,
        body: Body,
    ) {
        self.table.insert(name.into(), Function { fixed: fixed.into(), rest, body });
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Function> {
        self.table.get(name)
    }

    pub(crate) fn has_methods(&self) -> bool {
        self.methods.is_some()
    }

    pub(crate) fn method(&self, receiver: &Value, name: &str, args: &[Value]) -> Option<Outcome> {
        self.methods.as_ref()?(receiver, name, args)
    }
}

impl Function {
    pub(crate) fn fixed(&self) -> usize {
        self.fixed.len()
    }

    pub(crate) fn is_variadic(&self) -> bool {
        self.rest.is_some()
    }

    pub(crate) fn param(&self, index: usize) -> Param {
        self.fixed.get(index).copied().or(self.rest).unwrap_or(Param::Any)
    }

    pub(crate) fn short_circuit(&self) -> Option<bool> {
        match self.body {
            Body::ShortCircuit(stops_at) => Some(stops_at),
            _ => None,
        }
    }

    pub(crate) fn call(&self, run: &mut Run<'_>, args: &[Value]) -> Outcome {
        match &self.body {
            Body::Native(native) => native(run, args),
            Body::Given(given) => given(args),
            Body::Refused(why) => Err(Fault::Problem(format!("not available here: {why}"))),
            Body::ShortCircuit(_) => Ok(args.last().cloned().unwrap_or_default()),
        }
    }
}

/// The text of an argument whose type was checked.
fn str_at(args: &[Value], index: usize) -> &str {
    args.get(index).and_then(Value::as_str).unwrap_or_default()
}

fn int_at(args: &[Value], index: usize) -> i64 {
    match args.get(index) {
        Some(Value::Int(n)) => *n,
        _ => 0,
    }
}

fn any_at(args: &[Value], index: usize) -> Value {
    args.get(index).cloned().unwrap_or_default()
}

/// A string as it is, anything else as `%v`.
fn to_text(run: &mut Run<'_>, value: &Value) -> Result<String, Fault> {
    let mut out = run.buffer();
    crate::format::display(&mut out, value);
    let text = out.finish()?;
    run.spend(text.len() as u64)?;
    Ok(text)
}

fn length(n: usize) -> Value {
    Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
}
