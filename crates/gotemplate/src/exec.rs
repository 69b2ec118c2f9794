//! A template with its data to text: actions, branches, loops and calls of other templates.
//!
//! `Run` is one rendering with what it may still use; `Frame` is one template at work in it.

mod expr;
mod field;
mod operand;
#[cfg(test)]
mod tests;

use crate::buffer::Buffer;
use crate::error::{Error, Fault};
use crate::limit::DEEPEST_RUN;
use crate::node::{Branch, Call, Command, Expr, Node, Pipe, Tree};
use crate::templates::Templates;
use crate::value::Value;
use operand::Operand;

/// One rendering: the templates, and what it may still cost.
pub(crate) struct Run<'t> {
    pub(crate) templates: &'t Templates,
    /// What the outermost template was given.
    root: Value,
    work: u64,
    depth: usize,
}

/// Boxed, since it travels through every level.
type Stop = Box<Error>;

enum Flow {
    Next,
    Break,
    Continue,
}

/// The part under evaluation, for errors.
#[derive(Clone, Copy)]
enum At<'t> {
    Text,
    Pipe(&'t Pipe),
    Command(&'t Command),
    Expr(&'t Expr),
    Call(&'t Call),
}

pub(crate) fn render(templates: &Templates, tree: &Tree, data: Value) -> Result<String, Error> {
    let mut run = Run { templates, root: data.clone(), work: templates.limits().work, depth: 0 };
    run.execute(tree, data).map_err(|stop| *stop)
}

/// One function with arguments of its own, for tests of all functions.
#[cfg(test)]
pub(crate) fn call_for_test(
    templates: &Templates,
    function: &crate::functions::Function,
    args: &[Value],
) -> Result<Value, Fault> {
    let work = templates.limits().work;
    function.call(&mut Run { templates, root: Value::Nil, work, depth: 0 }, args)
}

impl<'t> Run<'t> {
    /// The output of one template, for a function such as `include`.
    pub(crate) fn include(&mut self, name: &str, data: Value) -> Result<String, Fault> {
        let templates = self.templates;
        let Some(tree) = templates.tree(name) else {
            return Err(format!("template: no template {name:?} associated with this one").into());
        };
        self.execute(tree, data).map_err(|stop| fault(&stop))
    }

    /// Text given by data as a template that sees all others.
    pub(crate) fn tpl(&mut self, text: &str, data: Value) -> Result<String, Fault> {
        let mut templates = self.templates.clone();
        self.spend(text.len() as u64)?;
        templates.parse("gotpl", text).map_err(|error| fault(&error))?;
        let Some(tree) = templates.tree("gotpl") else { return Ok(String::new()) };
        let mut inner = Run {
            templates: &templates,
            root: self.root.clone(),
            work: self.work,
            depth: self.depth,
        };
        let rendered = inner.execute(tree, data);
        self.work = inner.work;
        rendered.map_err(|stop| fault(&stop))
    }

    /// The same, with the data of the outermost template.
    pub(crate) fn tpl_with_root(&mut self, text: &str) -> Result<String, Fault> {
        self.tpl(text, self.root.clone())
    }

    fn execute(&mut self, tree: &Tree, data: Value) -> Result<String, Stop> {
        let bounded = |fault: Fault| Box::new(error(tree, At::Text, &fault));
        // A template inside a function takes more stack than one called by an action.
        self.deeper().map_err(bounded)?;
        let mut out = Buffer::new(self.templates.limits().output);
        let done = Frame::new(self, tree, &mut out, Operand::from(data)).template();
        self.depth -= 1;
        done?;
        out.finish().map_err(bounded)
    }

    /// Takes from the work that is left.
    pub(crate) fn spend(&mut self, work: u64) -> Result<(), Fault> {
        match self.work.checked_sub(work) {
            Some(left) => {
                self.work = left;
                Ok(())
            }
            None => Err(Fault::Bound("the template takes more work than is allowed".to_owned())),
        }
    }

    /// Refuses a text of this size before it is built, and counts it.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), Fault> {
        if bytes > self.templates.limits().output {
            return Err(Fault::Bound("the text grows past the size limit".to_owned()));
        }
        self.spend(bytes as u64)
    }

    pub(crate) fn buffer(&self) -> Buffer {
        Buffer::new(self.templates.limits().output)
    }

    fn deeper(&mut self) -> Result<(), Fault> {
        if self.depth >= DEEPEST_RUN {
            let text = format!("exceeded maximum template depth ({DEEPEST_RUN})");
            return Err(Fault::Bound(text));
        }
        self.depth += 1;
        Ok(())
    }
}

fn fault(error: &Error) -> Fault {
    if error.is_bounded() {
        Fault::Bound(error.to_string())
    } else {
        Fault::Problem(error.to_string())
    }
}

fn error(tree: &Tree, at: At<'_>, fault: &Fault) -> Error {
    let (pos, shown) = match at {
        At::Text => (0, String::new()),
        At::Pipe(pipe) => (pipe.pos, pipe.to_string()),
        At::Command(command) => (command.pos, command.to_string()),
        At::Expr(expr) => (expr.pos, expr.to_string()),
        At::Call(call) => (call.pos, call.to_string()),
    };
    let (line, column) = tree.place(pos);
    Error::Execute {
        file: tree.file.to_string(),
        line,
        column,
        template: tree.name.clone(),
        at: shown,
        problem: fault.message().to_owned(),
        bounded: matches!(fault, Fault::Bound(_)),
    }
}

/// One template at work: where it is, and its variables.
struct Frame<'r, 't, 'x> {
    run: &'r mut Run<'x>,
    tree: &'t Tree,
    out: &'r mut Buffer,
    variables: Vec<(&'t str, Operand)>,
    at: At<'t>,
}

impl<'r, 't, 'x> Frame<'r, 't, 'x> {
    fn new(run: &'r mut Run<'x>, tree: &'t Tree, out: &'r mut Buffer, data: Operand) -> Self {
        Self { run, tree, out, variables: vec![("$", data)], at: At::Text }
    }

    fn template(mut self) -> Result<(), Stop> {
        let dot = self.variables[0].1.clone();
        self.nodes(&dot, &self.tree.nodes).map(|_| ())
    }

    fn stop(&self, fault: &Fault) -> Stop {
        Box::new(error(self.tree, self.at, fault))
    }

    fn fail<T>(&self, problem: impl Into<String>) -> Result<T, Stop> {
        Err(self.stop(&Fault::Problem(problem.into())))
    }

    fn checked<T>(&self, result: Result<T, Fault>) -> Result<T, Stop> {
        result.map_err(|fault| self.stop(&fault))
    }

    fn spend(&mut self, work: u64) -> Result<(), Stop> {
        let spent = self.run.spend(work);
        self.checked(spent)
    }

    /// One level of recursion.
    fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        let entered = self.run.deeper();
        self.checked(entered)?;
        let done = work(self);
        self.run.depth -= 1;
        done
    }

    fn nodes(&mut self, dot: &Operand, nodes: &'t [Node]) -> Result<Flow, Stop> {
        for node in nodes {
            self.spend(1)?;
            let flow = match node {
                Node::Text(text) => {
                    self.out.push(text);
                    Flow::Next
                }
                Node::Action(pipe) => self.action(dot, pipe)?,
                Node::If(branch) => self.choice(dot, branch, false)?,
                Node::With(branch) => self.choice(dot, branch, true)?,
                Node::Range(branch) => self.deeper(|frame| frame.range(dot, branch))?,
                Node::Template(call) => self.deeper(|frame| frame.call(dot, call))?,
                Node::Break => return Ok(Flow::Break),
                Node::Continue => return Ok(Flow::Continue),
            };
            if !matches!(flow, Flow::Next) {
                return Ok(flow);
            }
            let room = self.out.check();
            self.checked(room)?;
        }
        Ok(Flow::Next)
    }

    fn action(&mut self, dot: &Operand, pipe: &'t Pipe) -> Result<Flow, Stop> {
        let value = self.pipeline(dot, pipe)?;
        if pipe.declared.is_empty() {
            match value.value() {
                Some(value) => crate::format::display(self.out, value),
                None => self.out.push("<no value>"),
            }
        }
        Ok(Flow::Next)
    }

    fn choice(&mut self, dot: &Operand, branch: &'t Branch, with: bool) -> Result<Flow, Stop> {
        let mark = self.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let truth = value.value().is_some_and(Value::is_true);
        let flow = match (truth, with) {
            (true, true) => self.deeper(|frame| frame.nodes(&value, &branch.body)),
            (true, false) => self.deeper(|frame| frame.nodes(dot, &branch.body)),
            (false, _) => self.deeper(|frame| frame.nodes(dot, &branch.otherwise)),
        };
        self.variables.truncate(mark);
        flow
    }

    fn range(&mut self, dot: &Operand, branch: &'t Branch) -> Result<Flow, Stop> {
        let mark = self.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let flow = match value.value() {
            None => None,
            Some(Value::Int(n) | Value::Int64(n)) => {
                let typed = value.value().cloned().unwrap_or_default();
                self.count(branch, *n, &typed)?
            }
            Some(Value::Byte(n)) => self.count(branch, i64::from(*n), &Value::Byte(*n))?,
            Some(Value::List(list)) => {
                let held = list.elem() == crate::value::Elem::Any;
                let pairs = list.items().iter().enumerate().map(|(i, item)| {
                    let index = i64::try_from(i).unwrap_or(i64::MAX);
                    (Operand::Bare(Value::Int(index)), Operand::element(item.clone(), held))
                });
                self.turns(branch, pairs)?
            }
            Some(Value::Map(map)) => {
                let held = map.elem() == crate::value::Elem::Any;
                let entries = map.entries();
                self.spend(entries.len() as u64)?;
                let pairs = entries.into_iter().map(|(key, item)| {
                    (Operand::Bare(Value::Str(key)), Operand::element(item, held))
                });
                self.turns(branch, pairs)?
            }
            Some(other) => {
                let shown = self.shown(other);
                return self.fail(format!("range can't iterate over {shown}"));
            }
        };
        let flow = match flow {
            Some(flow) => flow,
            None => self.nodes(dot, &branch.otherwise)?,
        };
        self.variables.truncate(mark);
        Ok(flow)
    }

    fn count(&mut self, branch: &'t Branch, n: i64, value: &Value) -> Result<Option<Flow>, Stop> {
        if branch.pipe.declared.len() > 1 {
            let shown = self.shown(value);
            return self.fail(format!("can't use {shown} to iterate over more than one variable"));
        }
        let typed = |i: i64| match value {
            Value::Int64(_) => Value::Int64(i),
            Value::Byte(_) => Value::Byte(u8::try_from(i).unwrap_or(u8::MAX)),
            _ => Value::Int(i),
        };
        self.turns(branch, (0..n).map(|i| (Operand::Invalid, Operand::Bare(typed(i)))))
    }

    /// Runs the body for each pair; nothing when there is none.
    fn turns(
        &mut self,
        branch: &'t Branch,
        pairs: impl Iterator<Item = (Operand, Operand)>,
    ) -> Result<Option<Flow>, Stop> {
        let mark = self.variables.len();
        let mut ran = false;
        for (index, element) in pairs {
            ran = true;
            self.spend(1)?;
            self.loop_variables(branch, &index, &element)?;
            let flow = self.nodes(&element, &branch.body)?;
            self.variables.truncate(mark);
            if matches!(flow, Flow::Break) {
                break;
            }
        }
        Ok(ran.then_some(Flow::Next))
    }

    /// With one variable it is the element, with two the index comes first.
    fn loop_variables(
        &mut self,
        branch: &'t Branch,
        index: &Operand,
        element: &Operand,
    ) -> Result<(), Stop> {
        let declared = &branch.pipe.declared;
        let values = if declared.len() > 1 { vec![index, element] } else { vec![element] };
        for (name, value) in declared.iter().zip(values) {
            // The pipeline pushed declared variables, so the innermost is the loop's own.
            self.assign(name, value.clone())?;
        }
        Ok(())
    }

    fn call(&mut self, dot: &Operand, call: &'t Call) -> Result<Flow, Stop> {
        self.at = At::Call(call);
        let templates = self.run.templates;
        let Some(tree) = templates.tree(&call.name) else {
            let name = crate::format::quote::double(&call.name);
            return self.fail(format!("template {name} not defined"));
        };
        let data = match &call.pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Operand::Invalid,
        };
        Frame::new(self.run, tree, self.out, data).template()?;
        Ok(Flow::Next)
    }

    fn assign(&mut self, name: &str, value: Operand) -> Result<(), Stop> {
        match self.variables.iter_mut().rev().find(|(known, _)| *known == name) {
            Some((_, slot)) => {
                *slot = value;
                Ok(())
            }
            None => self.fail(format!("undefined variable: {name}")),
        }
    }

    /// A value inside an error.
    fn shown(&self, value: &Value) -> String {
        let mut out = Buffer::new(200);
        crate::format::display(&mut out, value);
        out.as_str().to_owned()
    }
}
