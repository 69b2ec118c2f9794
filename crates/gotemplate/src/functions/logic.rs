//! Defaults, choices and questions about types.

use super::Param::{Any, Bool, Str};
use super::{Outcome, Row, any_at, compare, str_at};
use crate::exec::Run;
use crate::value::Value;

pub(super) const TABLE: &[Row] = &[
    ("all", &[], Some(Any), all),
    ("any", &[], Some(Any), any),
    ("coalesce", &[], Some(Any), coalesce),
    ("deepEqual", &[Any, Any], None, deep_equal),
    ("default", &[Any], Some(Any), default),
    ("empty", &[Any], None, empty),
    ("fail", &[Str], None, fail),
    ("hello", &[], None, hello),
    ("kindIs", &[Str, Any], None, kind_is),
    ("kindOf", &[Any], None, kind_of),
    ("ternary", &[Any, Any, Bool], None, ternary),
    ("typeIs", &[Str, Any], None, type_is),
    ("typeIsLike", &[Str, Any], None, type_is),
    ("typeOf", &[Any], None, type_of),
];

fn all(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(args.iter().all(Value::is_true).into())
}

fn any(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(args.iter().any(Value::is_true).into())
}

fn coalesce(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(args.iter().find(|value| value.is_true()).cloned().unwrap_or_default())
}

fn deep_equal(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(compare::deep_equal(run, &args[0], &args[1], 0)?.into())
}

fn default(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let given = any_at(args, 1);
    Ok(if given.is_true() { given } else { any_at(args, 0) })
}

fn empty(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok((!args[0].is_true()).into())
}

fn fail(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Err(str_at(args, 0).into())
}

fn hello(_: &mut Run<'_>, _: &[Value]) -> Outcome {
    Ok("Hello!".into())
}

fn kind_is(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok((args[1].kind_name() == str_at(args, 0)).into())
}

fn kind_of(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(args[0].kind_name().into())
}

fn ternary(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(any_at(args, usize::from(!args[2].is_true())))
}

fn type_is(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok((args[1].type_name() == str_at(args, 0)).into())
}

fn type_of(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(args[0].type_name().into())
}
