//! `format`: which ones are known for which type, and whether a text fulfils one.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::LazyLock,
};

use regex::Regex;

use crate::node::Type;

/// A format of texts that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    HexColor,
    RgbColor,
    Ssn,
    Byte,
    Date,
    DateTime,
    Duration,
    BsonObjectId,
}

impl Format {
    /// Known formats are kept; others are ignored, as Kubernetes does.
    pub(crate) fn is_known(name: &str, kind: Option<Type>) -> bool {
        match kind {
            Some(Type::Integer) => matches!(name, "int32" | "int64"),
            Some(Type::Number) => matches!(name, "float" | "double"),
            None | Some(Type::String) => name == "password" || Self::parse(name).is_some(),
            _ => false,
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name.replace('-', "").as_str() {
            "uri" => Self::Uri,
            "email" => Self::Email,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "mac" => Self::Mac,
            "uuid" => Self::Uuid,
            "uuid3" => Self::Uuid3,
            "uuid4" => Self::Uuid4,
            "uuid5" => Self::Uuid5,
            "hexcolor" => Self::HexColor,
            "rgbcolor" => Self::RgbColor,
            "ssn" => Self::Ssn,
            "byte" => Self::Byte,
            "date" => Self::Date,
            "datetime" => Self::DateTime,
            "duration" => Self::Duration,
            "bsonobjectid" => Self::BsonObjectId,
            _ => return None,
        })
    }

    pub(crate) fn fits(self, text: &str) -> bool {
        match self {
            Self::Uri => is_request_uri(text),
            Self::Email => is_email(text),
            Self::Hostname => {
                HOSTNAME.is_match(text)
                    && text.len() <= 255
                    && text.split('.').all(|p| p.len() <= 63)
            }
            Self::Ipv4 => ip(text).is_some() && text.contains('.'),
            Self::Ipv6 => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
            Self::Cidr => is_cidr(text),
            Self::Mac => MAC.is_match(text),
            Self::Uuid => UUID.is_match(text),
            Self::Uuid3 => UUID3.is_match(text),
            Self::Uuid4 => UUID4.is_match(text),
            Self::Uuid5 => UUID5.is_match(text),
            Self::HexColor => HEX_COLOR.is_match(text),
            Self::RgbColor => RGB_COLOR.is_match(text),
            Self::Ssn => SSN.is_match(text),
            Self::Byte => BASE64.is_match(text),
            Self::Date => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
            Self::DateTime => is_date_time(text),
            Self::Duration => is_duration(text),
            Self::BsonObjectId => OBJECT_ID.is_match(text),
        }
    }
}

macro_rules! regexes {
    ($($name:ident = $text:literal;)*) => {
        $(static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("the expression is a constant"));)*
    };
}

regexes! {
    HOSTNAME = r"^([a-zA-Z0-9\p{L}][a-zA-Z0-9-\p{L}]*[a-zA-Z0-9\p{L}]|[a-zA-Z0-9\p{L}])(\.([a-zA-Z0-9\p{L}][a-zA-Z0-9-\p{L}]*[a-zA-Z0-9\p{L}]|[a-zA-Z0-9\p{L}]))*$";
    MAC = r"^(?:[0-9A-Fa-f]{2}[:-]){5}(?:[0-9A-Fa-f]{2}|(?:[0-9A-Fa-f]{2}[:-]){2}[0-9A-Fa-f]{2})$|^(?:[0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}$";
    UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID3 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID4 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    UUID5 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    HEX_COLOR = r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR = r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$";
    SSN = r"^\d{3}[- ]?\d{2}[- ]?\d{4}$";
    BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
    OBJECT_ID = r"^[0-9a-fA-F]{24}$";
    DATE_TIME = r"^([0-9]{4})-([0-9]{2})-([0-9]{2})[tT ]([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?([zZ]|[+-][0-9]{2}:[0-9]{2})$";
    GO_DURATION = r"^[+-]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*)$";
    WORD_DURATION = r"(?i)([0-9]+)\s*(ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)";
    EMAIL = r"^[^\s@<>,;:]+@[^\s@<>,;:]+$";
}

/// IPv4 with leading zeros is taken, as Kubernetes still does.
fn ip(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse() {
        return Some(ip);
    }
    let parts: Vec<&str> = text.split('.').collect();
    let sloppy = parts.len() == 4
        && parts
            .iter()
            .all(|p| (1..=3).contains(&p.len()) && p.parse::<u8>().is_ok() && !p.starts_with('+'));
    sloppy.then(|| IpAddr::from([0, 0, 0, 0]))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Some(address) = ip(address) else { return false };
    let most = if address.is_ipv4() { 32 } else { 128 };
    !length.starts_with('+') && length.parse::<u8>().is_ok_and(|length| length <= most)
}

fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|c| c.is_control() || c == ' ') {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let good = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    good && !rest.is_empty()
}

fn is_email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.strip_suffix('>')) {
        (Some(start), Some(inner)) => &inner[start + 1..],
        _ => text,
    };
    EMAIL.is_match(address)
}

fn is_date_time(text: &str) -> bool {
    let Some(parts) = DATE_TIME.captures(text) else { return false };
    let number = |at: usize| parts.get(at).and_then(|m| m.as_str().parse::<i8>().ok());
    let date = text.get(..10).is_some_and(|date| date.parse::<jiff::civil::Date>().is_ok());
    date && number(4).is_some_and(|h| h < 24)
        && number(5).is_some_and(|m| m < 60)
        && number(6).is_some_and(|s| s < 60)
}

fn is_duration(text: &str) -> bool {
    GO_DURATION.is_match(text) || WORD_DURATION.is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: &str, good: &[&str], bad: &[&str]) {
        let checked = Format::parse(format).expect("a known format");
        for text in good {
            assert!(checked.fits(text), "{text:?} is a {format}");
        }
        for text in bad {
            assert!(!checked.fits(text), "{text:?} is no {format}");
        }
    }

    #[test]
    fn formats_accept_what_they_should() {
        check("ipv4", &["1.2.3.4", "010.1.1.1"], &["1.2.3", "::1", "a"]);
        check("ipv6", &["::1", "2001:db8::"], &["1.2.3.4", ""]);
        check("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "x/1"]);
        check(
            "date-time",
            &["2024-02-29T10:00:00Z", "2024-01-01T00:00:00.5+02:00"],
            &["2023-02-29T10:00:00Z", "2024-01-01", "2024-01-01T25:00:00Z"],
        );
        check("date", &["2024-02-29"], &["2024-2-9", "2023-02-29"]);
        check("duration", &["1h2m", "5s", "0", "3 days", "1.5h"], &["x", "", "5"]);
        check("byte", &["aGk=", "aGVsbG8h"], &["a", "=="]);
        check("uri", &["http://a/b", "/x", "mailto:a@b"], &["a b", "", "a"]);
        check("uuid", &["6214de9d-795b-429e-aa29-4bd4bbed393c"], &["6214de9d"]);
        check("hostname", &["a.b", "x-y"], &["-a", "a..b"]);
        check("email", &["a@b.c", "A <a@b>"], &["a", "@"]);
        check("mac", &["00:11:22:33:44:55"], &["00:11"]);
    }
}
