//! What injection templates know beyond sprig. `indent`, `contains`, `omit`, `env` and `toJson`
//! mean something else here than there.
//!
//! Objects come as maps with the names of JSON or of Go (`ports` or `Ports`). What needs more of
//! the pod, such as `otelResourceAttributes`, is added by the caller.

use super::Param::{Any, AnyMap, Int, Str};
use super::text::string_map;
use super::{Outcome, Row, any_at, encode, helm, int_at, path, str_at, to_text, words};
use crate::error::Fault;
use crate::exec::Run;
use crate::json::{self, Style};
use crate::value::{List, Map, Value};

pub(super) const TABLE: &[Row] = &[
    ("annotation", &[AnyMap, Str, Any], None, annotation),
    ("appendMultusNetwork", &[Str, Str], None, append_multus_network),
    ("applicationPorts", &[Any], None, application_ports),
    ("contains", &[Str, Str], None, contains),
    ("directory", &[Str], None, directory),
    ("excludeInboundPort", &[Any, Str], None, exclude_inbound_port),
    ("excludeInterfaces", &[Str], None, same),
    ("formatDuration", &[Any], None, format_duration),
    ("fromJSON", &[Str], None, from_json),
    ("includeInboundPorts", &[Any], None, include_inbound_ports),
    ("indent", &[Int, Str], None, indent),
    ("isset", &[AnyMap, Str], None, isset),
    ("kubevirtInterfaces", &[Str], None, same),
    ("mergeMaps", &[], Some(AnyMap), merge_maps),
    ("omit", &[AnyMap], Some(Str), omit),
    ("omitNil", &[Any], None, omit_nil),
    ("protoToJSON", &[Any], None, struct_to_json),
    ("render", &[Str], None, render),
    ("strdict", &[], Some(Str), strdict),
    ("structToJSON", &[Any], None, struct_to_json),
    ("toJSON", &[AnyMap], None, struct_to_json),
    ("toJsonMap", &[], Some(AnyMap), to_json_map),
    ("toLower", &[Str], None, words::lower),
    ("toYaml", &[Any], None, to_yaml),
    ("valueOrDefault", &[Any, Any], None, value_or_default),
];

/// A field by its name in Go or in JSON.
fn field(value: &Value, name: &str) -> Option<Value> {
    let map = value.as_map()?;
    let mut letters = name.chars();
    let json: String = letters.next().into_iter().map(words::lower_char).chain(letters).collect();
    map.get(name).or_else(|| map.get(&json)).filter(|found| !found.is_nil())
}

/// A text of the values that is a template itself.
fn render(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(run.tpl_with_root(str_at(args, 0))?.into())
}

fn annotation(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let annotations = field(&args[0], "Annotations");
    match annotations.as_ref().and_then(Value::as_map).and_then(|map| map.get(str_at(args, 1))) {
        Some(found) => Ok(found),
        None => Ok(to_text(run, &args[2])?.into()),
    }
}

fn isset(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(args[0].as_map().is_some_and(|map| map.contains(str_at(args, 1))).into())
}

fn value_or_default(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let value = any_at(args, 0);
    let nothing = value.is_nil() || value.as_str() == Some("");
    Ok(if nothing { any_at(args, 1) } else { value })
}

fn contains(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(str_at(args, 1).contains(str_at(args, 0)).into())
}

fn directory(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(path::directory(str_at(args, 0)).into())
}

fn same(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(any_at(args, 0))
}

/// All lines but the first.
fn indent(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let (spaces, text) = (int_at(args, 0).unsigned_abs(), str_at(args, 1));
    let spaces = usize::try_from(spaces).unwrap_or(usize::MAX);
    let lines = text.matches('\n').count();
    run.reserve(text.len().saturating_add(lines.saturating_mul(spaces)))?;
    // The width of a format directive ends here in Go.
    let spaces = if spaces > 1_000_000 { 0 } else { spaces };
    Ok(text.replace('\n', &format!("\n{}", " ".repeat(spaces))).into())
}

fn to_yaml(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    encode::or_empty(helm::yaml_text(run, &args[0]), "")
}

fn from_json(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    match encode::parsed(run, str_at(args, 0)) {
        Err(Fault::Problem(_)) => Ok("{}".into()),
        other => other,
    }
}

/// Nothing is an empty object.
fn struct_to_json(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    if args[0].is_nil() {
        return Ok("{}".into());
    }
    let style = Style { html: true, pretty: false };
    encode::or_empty(encode::json_text(run, &args[0], style), "{}")
}

fn merge_maps(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let out = Map::new();
    for map in args.iter().filter_map(Value::as_map) {
        run.spend(map.len() as u64 * 64)?;
        for (key, value) in map.entries() {
            out.insert(&key, value);
        }
    }
    Ok(string_map(&out))
}

fn to_json_map(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let merged = merge_maps(run, args)?;
    encode::to_json(run, &[merged])
}

fn omit(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let out = Map::new();
    for (key, value) in args[0].as_map().map(Map::entries).unwrap_or_default() {
        if !args[1..].iter().any(|name| name.as_str() == Some(&*key)) {
            out.insert(&key, value);
        }
    }
    Ok(string_map(&out))
}

fn strdict(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let pairs = args.chunks(2).map(|pair| (str_at(pair, 0), str_at(pair, 1)));
    Ok(Value::string_map(pairs))
}

fn omit_nil(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    without_nil(run, &args[0], 0)
}

/// Nil entries are left out, and so is what becomes empty by that.
fn without_nil(run: &mut Run<'_>, value: &Value, depth: usize) -> Outcome {
    run.spend(32)?;
    if depth > crate::limit::DEEPEST_VALUE {
        return Err(Fault::Bound("the value is nested too deep".to_owned()));
    }
    match value {
        Value::Map(map) => {
            let out = map.empty_like();
            for (key, item) in map.entries() {
                let item = without_nil(run, &item, depth + 1)?;
                if !item.is_nil() {
                    out.insert(&key, item);
                }
            }
            Ok(if out.is_empty() && !map.is_empty() { Value::Nil } else { out.into() })
        }
        Value::List(list) => {
            let mut out = Vec::new();
            for item in list.items() {
                out.push(without_nil(run, item, depth + 1)?);
            }
            out.retain(|item| !item.is_nil());
            let emptied = out.is_empty() && !list.items().is_empty();
            Ok(if emptied { Value::Nil } else { out.into() })
        }
        scalar => Ok(scalar.clone()),
    }
}

fn exclude_inbound_port(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let excluded = str_at(args, 1);
    let shown = to_text(run, &args[0])?;
    let port = shown.trim();
    let known = excluded.split(',').any(|one| one == port);
    if port.is_empty() || port == "0" || known {
        return Ok(excluded.into());
    }
    let ports = excluded.split(',').map(str::trim).filter(|one| !one.is_empty());
    Ok(ports.chain([port]).collect::<Vec<_>>().join(",").into())
}

fn application_ports(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    ports(run, &args[0], |container| {
        field(container, "Name").is_none_or(|name| name.as_str() != Some("istio-proxy"))
    })
}

fn include_inbound_ports(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    ports(run, &args[0], |_| true)
}

/// The TCP ports of the containers.
fn ports(run: &mut Run<'_>, containers: &Value, wanted: fn(&Value) -> bool) -> Outcome {
    let mut out = Vec::new();
    let containers = containers.as_list().map(List::items).unwrap_or_default();
    for container in containers.iter().filter(|container| wanted(container)) {
        let ports = field(container, "Ports");
        for port in ports.as_ref().and_then(Value::as_list).map(List::items).unwrap_or_default() {
            let protocol = field(port, "Protocol");
            if matches!(protocol.as_ref().and_then(Value::as_str), Some("UDP" | "SCTP")) {
                continue;
            }
            let number = field(port, "ContainerPort").unwrap_or(Value::Int(0));
            out.push(to_text(run, &number)?);
        }
    }
    Ok(out.join(",").into())
}

fn append_multus_network(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let (existing, network) = (str_at(args, 0), str_at(args, 1));
    if existing.is_empty() {
        return Ok(network.into());
    }
    let Some(end) = existing.rfind(']') else {
        if existing.split(',').any(|one| one.trim() == network) {
            return Ok(existing.into());
        }
        return Ok(format!("{existing}, {network}").into());
    };
    let Ok(Value::List(networks)) = json::parse(existing) else { return Ok(existing.into()) };
    let (namespace, name) = network.split_once('/').unwrap_or(("", network));
    let has = |one: &Value, key: &str, wanted: &str| {
        field(one, key).as_ref().and_then(Value::as_str).unwrap_or_default() == wanted
    };
    let same = |one: &Value| has(one, "Name", name) && has(one, "Namespace", namespace);
    if networks.items().iter().any(same) {
        return Ok(existing.into());
    }
    let (head, tail) = existing.split_at(end);
    let namespace = match namespace {
        "" => String::new(),
        namespace => format!(", \"namespace\": \"{namespace}\""),
    };
    Ok(format!("{head}, {{\"name\": \"{name}\"{namespace}}}{tail}").into())
}

/// `90s`, as JSON has durations, as Go shows them: `1m30s`.
fn format_duration(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let text = to_text(run, &args[0])?;
    let seconds = text.strip_suffix('s').and_then(|number| number.parse::<f64>().ok());
    let Some(seconds) = seconds.filter(|s| s.is_finite() && s.abs() < 9.2e9) else {
        return Err(format!("{text:?} is no duration in seconds").into());
    };
    let sign = if seconds < 0.0 { "-" } else { "" };
    let (seconds, whole) = (seconds.abs(), seconds.abs().trunc());
    if whole < 1.0 && seconds > 0.0 {
        let millis = seconds * 1000.0;
        let (size, unit) = if millis >= 1.0 { (millis, "ms") } else { (millis * 1000.0, "µs") };
        return Ok(format!("{sign}{}{unit}", (size * 1000.0).round() / 1000.0).into());
    }
    let (hours, minutes) = ((seconds / 3600.0).floor(), (seconds / 60.0).floor() % 60.0);
    let rest = ((seconds % 60.0) * 1e9).round() / 1e9;
    Ok(match (hours > 0.0, minutes > 0.0) {
        (true, _) => format!("{sign}{hours}h{minutes}m{rest}s"),
        (false, true) => format!("{sign}{minutes}m{rest}s"),
        (false, false) => format!("{sign}{rest}s"),
    }
    .into())
}
