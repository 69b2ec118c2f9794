//! JSON, base64 and digests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::Digest;

use super::Param::{Any, Str};
use super::{Outcome, Row, str_at};
use crate::error::Fault;
use crate::exec::Run;
use crate::json::{self, Style};
use crate::value::Value;

pub(super) const TABLE: &[Row] = &[
    ("b64dec", &[Str], None, b64dec),
    ("b64enc", &[Str], None, b64enc),
    ("fromJson", &[Str], None, from_json),
    ("mustFromJson", &[Str], None, must_from_json),
    ("mustToJson", &[Any], None, must_to_json),
    ("mustToPrettyJson", &[Any], None, must_to_pretty_json),
    ("mustToRawJson", &[Any], None, must_to_raw_json),
    ("sha256sum", &[Str], None, sha256sum),
    ("sha512sum", &[Str], None, sha512sum),
    ("toJson", &[Any], None, to_json),
    ("toPrettyJson", &[Any], None, to_pretty_json),
    ("toRawJson", &[Any], None, must_to_raw_json),
];

const PLAIN: Style = Style { html: true, pretty: false };

pub(super) fn json_text(run: &mut Run<'_>, value: &Value, style: Style) -> Result<String, Fault> {
    let mut out = run.buffer();
    json::write(&mut out, value, style)?;
    let text = out.finish()?;
    run.spend(text.len() as u64)?;
    Ok(text)
}

/// What cannot be written is empty text; a limit stays a limit.
pub(super) fn or_empty(text: Result<String, Fault>, empty: &str) -> Outcome {
    match text {
        Ok(text) => Ok(text.into()),
        Err(Fault::Problem(_)) => Ok(empty.into()),
        Err(bound) => Err(bound),
    }
}

pub(super) fn to_json(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    or_empty(json_text(run, &args[0], PLAIN), "")
}

fn must_to_json(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(json_text(run, &args[0], PLAIN)?.into())
}

fn to_pretty_json(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    or_empty(json_text(run, &args[0], Style { pretty: true, ..PLAIN }), "")
}

fn must_to_pretty_json(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(json_text(run, &args[0], Style { pretty: true, ..PLAIN })?.into())
}

fn must_to_raw_json(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(json_text(run, &args[0], Style { html: false, ..PLAIN })?.into())
}

pub(super) fn parsed(run: &mut Run<'_>, text: &str) -> Outcome {
    // A value takes about as much memory as this for each byte of its shortest text.
    run.spend(text.len() as u64 * 16)?;
    Ok(json::parse(text)?)
}

fn from_json(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    match parsed(run, str_at(args, 0)) {
        Err(Fault::Problem(_)) => Ok(Value::Nil),
        other => other,
    }
}

fn must_from_json(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    parsed(run, str_at(args, 0))
}

fn b64enc(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let text = str_at(args, 0);
    run.reserve(text.len().saturating_mul(2))?;
    Ok(STANDARD.encode(text).into())
}

/// What is no base64 gives the text of the mistake, as in sprig.
fn b64dec(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let text = str_at(args, 0);
    run.spend(text.len() as u64)?;
    let lines: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    Ok(match STANDARD.decode(&lines) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
        Err(error) => {
            let stray = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '='));
            let at = match (lines.find(stray), error) {
                (Some(at), _) | (None, base64::DecodeError::InvalidByte(at, _)) => at,
                _ => lines.len() / 4 * 4,
            };
            format!("illegal base64 data at input byte {at}").into()
        }
    })
}

fn sha256sum(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    run.spend(str_at(args, 0).len() as u64)?;
    Ok(hex(&sha2::Sha256::digest(str_at(args, 0))).into())
}

fn sha512sum(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    run.spend(str_at(args, 0).len() as u64)?;
    Ok(hex(&sha2::Sha512::digest(str_at(args, 0))).into())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
