//! Functions of sprig that are not there, with the reason, and those that need chance.
//!
//! They are known, so a template that names one in a branch it never takes still works.

use std::sync::Arc;

use super::Param::Int;
use super::{Functions, int_at};
use crate::error::Fault;
use crate::value::Value;

const CLOCK: &str = "a template renders the same at any time";
const CHANCE: &str = "a template renders the same each time";
const OUTSIDE: &str = "templates do not reach outside their data";
const CRYPTO: &str = "keys and certificates are not made by templates";
const UNKNOWN: &str = "this function is not supported";

pub(super) const TABLE: &[(&[&str], &str)] = &[
    (
        &[
            "ago",
            "date",
            "dateInZone",
            "dateModify",
            "date_in_zone",
            "date_modify",
            "duration",
            "durationRound",
            "htmlDate",
            "htmlDateInZone",
            "mustDateModify",
            "mustToDate",
            "must_date_modify",
            "now",
            "toDate",
            "unixEpoch",
        ],
        CLOCK,
    ),
    (
        &[
            "randAlpha",
            "randAlphaNum",
            "randAscii",
            "randBytes",
            "randInt",
            "randNumeric",
            "shuffle",
            "uuidv4",
        ],
        CHANCE,
    ),
    (&["env", "expandenv", "getHostByName"], OUTSIDE),
    (
        &[
            "bcrypt",
            "buildCustomCert",
            "decryptAES",
            "derivePassword",
            "encryptAES",
            "genCA",
            "genCAWithKey",
            "genPrivateKey",
            "genSelfSignedCert",
            "genSelfSignedCertWithKey",
            "genSignedCert",
            "genSignedCertWithKey",
            "htpasswd",
        ],
        CRYPTO,
    ),
    (
        &[
            "add1f",
            "addf",
            "adler32sum",
            "b32dec",
            "b32enc",
            "camelcase",
            "divf",
            "kebabcase",
            "mulf",
            "sha1sum",
            "snakecase",
            "subf",
            "urlJoin",
            "urlParse",
        ],
        UNKNOWN,
    ),
];

const DIGITS: &str = "0123456789";
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// More random characters than this are nobody's password.
const LONGEST: i64 = 65_536;

pub(super) fn add_random(functions: &mut Functions, next: &Arc<dyn Fn(u32) -> u32 + Send + Sync>) {
    let printable: String = (' '..='~').collect();
    for (name, set) in [
        ("randAlphaNum", format!("{LETTERS}{DIGITS}")),
        ("randAlpha", LETTERS.to_owned()),
        ("randNumeric", DIGITS.to_owned()),
        ("randAscii", printable),
    ] {
        let next = next.clone();
        let set: Vec<char> = set.chars().collect();
        functions.add(name, &[Int], None, move |args| {
            let count = int_at(args, 0);
            if count > LONGEST {
                return Err(Fault::Bound(format!("more than {LONGEST} random characters")));
            }
            let size = u32::try_from(set.len()).unwrap_or(1);
            let text: String =
                (0..count.max(0)).filter_map(|_| set.get(next(size) as usize)).collect();
            Ok(Value::from(text))
        });
    }
}
