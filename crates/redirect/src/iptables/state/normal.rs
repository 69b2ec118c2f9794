//! One form for a rule as we write it and as iptables prints it.
//!
//! iptables reorders options, names modules, prints marks in hexadecimal with masks and adds what it
//! took for granted. The form is the sorted list of options, each with its value and negation.

use ipnet::IpNet;

/// The rule's options in one spelling and order.
pub(crate) fn normal(rule: &str) -> Vec<String> {
    let words: Vec<&str> = rule.split_whitespace().collect();
    let mut options = Vec::new();
    let mut negated = false;
    let mut index = 0;
    while let Some(word) = words.get(index).copied() {
        index += 1;
        if word == "!" {
            negated = true;
            continue;
        }
        let mut value = Vec::new();
        while let Some(next) =
            words.get(index).copied().filter(|w| !w.starts_with('-') && *w != "!")
        {
            value.push(next);
            index += 1;
        }
        if let Some(option) = option(word, &value.join(" ")) {
            options.push(if negated { format!("! {option}") } else { option });
        }
        negated = false;
    }
    options.sort();
    options
}

/// `None`: says nothing that is not said elsewhere.
fn option(name: &str, value: &str) -> Option<String> {
    let text = match name {
        "-m" => return None,
        "--nfmask" | "--ctmask" if value == "0xffffffff" => return None,
        "--on-ip" if matches!(value, "0.0.0.0" | "::") => return None,
        "--mark" | "--tproxy-mark" => format!("{name} {}", mark(value)),
        "--set-mark" | "--set-xmark" => format!("--set-mark {}", mark(value)),
        "--to-port" | "--to-ports" => format!("--to-ports {value}"),
        "--ctstate" => {
            let mut states: Vec<&str> = value.split(',').collect();
            states.sort_unstable();
            format!("{name} {}", states.join(","))
        }
        "-s" | "-d" => match value.parse::<IpNet>() {
            Ok(net) if net.prefix_len() == 0 => return None,
            Ok(net) => format!("{name} {}", net.trunc()),
            Err(_) => format!("{name} {value}"),
        },
        _ => format!("{name} {value}"),
    };
    Some(text)
}

/// The mark as a decimal number; a mask that covers everything is none.
fn mark(value: &str) -> String {
    let value = value.strip_suffix("/0xffffffff").unwrap_or(value);
    match value.strip_prefix("0x").map(|hex| u32::from_str_radix(hex, 16)) {
        Some(Ok(number)) => number.to_string(),
        _ => value.to_owned(),
    }
}
