//! Text made safe for HTML, JavaScript and URLs, as the language's own escapers do it.

use super::Outcome;
use crate::buffer::Buffer;
use crate::error::Fault;
use crate::exec::Run;
use crate::format;
use crate::value::Value;

pub(super) fn html(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    each(run, args, |out, c| match c {
        '\0' => out.push("\u{fffd}"),
        '"' => out.push("&#34;"),
        '\'' => out.push("&#39;"),
        '&' => out.push("&amp;"),
        '<' => out.push("&lt;"),
        '>' => out.push("&gt;"),
        c => out.push_char(c),
    })
}

pub(super) fn js(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    each(run, args, |out, c| match c {
        '\\' => out.push("\\\\"),
        '\'' => out.push("\\'"),
        '"' => out.push("\\\""),
        '<' | '>' | '&' | '=' | '\0'..='\u{1f}' => {
            out.push(&format!("\\u{:04X}", u32::from(c)));
        }
        ' '..='\u{7f}' => out.push_char(c),
        c if format::quote::is_printable(c) => out.push_char(c),
        c => out.push(&format!("\\u{:04X}", u32::from(c))),
    })
}

pub(super) fn urlquery(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    each(run, args, |out, c| match c {
        ' ' => out.push("+"),
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' | '~' => out.push_char(c),
        c => {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                out.push(&format!("%{byte:02X}"));
            }
        }
    })
}

fn each(run: &mut Run<'_>, args: &[Value], escape: fn(&mut Buffer, char)) -> Outcome {
    let text = joined(run, args)?;
    run.spend(text.len() as u64)?;
    let mut out = run.buffer();
    for c in text.chars() {
        escape(&mut out, c);
    }
    Ok(out.finish()?.into())
}

/// The arguments as one text; nothing shows as it would in the output.
fn joined(run: &mut Run<'_>, args: &[Value]) -> Result<String, Fault> {
    let shown: Vec<Value> = args
        .iter()
        .map(|arg| if arg.is_nil() { Value::from("<no value>") } else { arg.clone() })
        .collect();
    let mut out = run.buffer();
    format::print(&mut out, &shown);
    out.finish()
}
