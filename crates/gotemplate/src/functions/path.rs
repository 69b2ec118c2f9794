//! Slash-separated paths, as text only.

use super::Param::Str;
use super::{Outcome, Row, str_at};
use crate::exec::Run;
use crate::value::Value;

pub(super) const TABLE: &[Row] = &[
    ("base", &[Str], None, base),
    ("clean", &[Str], None, clean),
    ("dir", &[Str], None, dir),
    ("ext", &[Str], None, ext),
    ("isAbs", &[Str], None, is_abs),
    ("osBase", &[Str], None, base),
    ("osClean", &[Str], None, clean),
    ("osDir", &[Str], None, dir),
    ("osExt", &[Str], None, ext),
    ("osIsAbs", &[Str], None, is_abs),
];

fn base(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let path = str_at(args, 0);
    let trimmed = path.trim_end_matches('/');
    Ok(match (path, trimmed) {
        ("", _) => ".",
        (_, "") => "/",
        (_, path) => path.rsplit('/').next().unwrap_or(path),
    }
    .into())
}

fn clean(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(cleaned(str_at(args, 0)).into())
}

fn dir(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(cleaned(directory(str_at(args, 0))).into())
}

/// Up to and with the last slash.
pub(super) fn directory(path: &str) -> &str {
    &path[..path.rfind('/').map_or(0, |slash| slash + 1)]
}

fn cleaned(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

fn ext(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let path = str_at(args, 0);
    let name = path.rsplit('/').next().unwrap_or(path);
    Ok(name.rfind('.').map_or("", |dot| &name[dot..]).into())
}

fn is_abs(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(str_at(args, 0).starts_with('/').into())
}
