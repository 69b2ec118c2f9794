//! Rules by iptables: look, then change what differs, each family in one `iptables-restore`.
//!
//! In: a rule set; out: the kernel's tables, or the tables as they were and an error.

use super::program::{Programs, ask};
use super::{Error, Kind, Options, Outcome, Variant, families, other_mode, variant};
use crate::config::Config;
use crate::iptables::change;
use crate::iptables::state::{Found, Question, State};
use crate::rule::{Family, RuleSet};

/// One family's way from old to new.
struct Step {
    variant: Variant,
    before: State,
    change: String,
    outcome: Outcome,
}

/// The steps that were taken, until it is clear that they stay.
pub(super) struct Done(Vec<Step>);

impl Done {
    /// Keeps the rules if what had to follow went well, else puts the old ones back.
    pub(super) fn keep_if(
        self,
        rest: Result<(), Error>,
        programs: &dyn Programs,
    ) -> Result<Outcome, Error> {
        match rest {
            Ok(()) => Ok(self.outcome()),
            Err(error) => Err(undo(&self.0, error, programs)),
        }
    }

    fn outcome(&self) -> Outcome {
        let any = |outcome| self.0.iter().any(|step| step.outcome == outcome);
        if any(Outcome::Replaced) {
            Outcome::Replaced
        } else if any(Outcome::Applied) {
            Outcome::Applied
        } else {
            Outcome::Unchanged
        }
    }
}

pub(super) fn apply(
    config: &Config,
    set: &RuleSet,
    options: &Options,
    kind: Option<Kind>,
    programs: &dyn Programs,
) -> Result<Done, Error> {
    // All is looked at before anything is changed.
    let mut steps = Vec::new();
    for family in families(config) {
        steps.push(plan(config, set, options, (*family, kind), programs)?);
    }
    let mut done = Done(Vec::new());
    for step in steps {
        if step.change.is_empty() {
            done.0.push(step);
            continue;
        }
        tracing::info!(command = step.variant.restore_command(), "applying:\n{}", step.change);
        let result = step.variant.restore(programs, "--noflush", &step.change);
        // Tables before the one that failed have changed already.
        done.0.push(step);
        if let Err(error) = result {
            return Err(undo(&done.0, error, programs));
        }
    }
    Ok(done)
}

fn plan(
    config: &Config,
    set: &RuleSet,
    options: &Options,
    (family, kind): (Family, Option<Kind>),
    programs: &dyn Programs,
) -> Result<Step, Error> {
    let variant = variant::detect(programs, family, kind)?;
    let before = variant.state(programs)?;
    let found = match before.compare(set, family) {
        Found::Unsure(questions) => answer(&variant, &questions, programs),
        found => found,
    };
    let replacement = || change::replace(&before, set, &[&other_mode(config)], family);
    let (change, outcome) = match found {
        Found::Clean => (crate::iptables::restore(set, family), Outcome::Applied),
        Found::Same if !options.force => (String::new(), Outcome::Unchanged),
        Found::Different(difference) if !options.reconcile && !options.force => {
            return Err(Error::Drift { family, difference });
        }
        Found::Same | Found::Different(_) | Found::Unsure(_) => (replacement(), Outcome::Replaced),
    };
    Ok(Step { variant, before, change, outcome })
}

/// Asks iptables itself about rules whose printed form could not be recognised.
fn answer(variant: &Variant, questions: &[Question], programs: &dyn Programs) -> Found {
    for Question { table, chain, rule } in questions {
        let args: Vec<&str> =
            ["-t", table, "-C", chain].into_iter().chain(rule.split_whitespace()).collect();
        if ask(programs, variant.command(), &args, "").is_err() {
            let difference = format!("chain {chain} of table {table} lacks the rule {rule}");
            return Found::Different(difference);
        }
    }
    Found::Same
}

fn undo(steps: &[Step], first: Error, programs: &dyn Programs) -> Error {
    for step in steps.iter().rev().filter(|step| !step.change.is_empty()) {
        let text = change::undo(&step.before, &step.change);
        tracing::warn!(command = step.variant.restore_command(), "putting the old rules back");
        if let Err(second) = step.variant.restore(programs, "--counters", &text) {
            return Error::NotUndone { source: Box::new(first), second: Box::new(second) };
        }
    }
    first
}

/// Removes our rules from every iptables that is installed.
pub(super) fn clean(
    config: &Config,
    kind: Option<Kind>,
    programs: &dyn Programs,
) -> Result<(), Error> {
    let known = [crate::build(config), other_mode(config)];
    let known: Vec<&RuleSet> = known.iter().collect();
    for family in [Family::V4, Family::V6] {
        for variant in variant::installed(programs, family, kind) {
            let change = change::remove(&variant.state(programs)?, &known, family);
            if !change.is_empty() {
                tracing::info!(command = variant.restore_command(), "removing:\n{change}");
                variant.restore(programs, "--noflush", &change)?;
            }
        }
    }
    Ok(())
}
