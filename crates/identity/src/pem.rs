//! PEM: bytes with a name on them. Writing only; reading is done by `rustls-pki-types`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

const LINE: usize = 64;

/// A certificate in DER as one block.
pub fn certificate(der: &[u8]) -> String {
    encode("CERTIFICATE", der)
}

/// One block, with a line feed at its end.
pub(crate) fn encode(label: &str, der: &[u8]) -> String {
    let text = Zeroizing::new(STANDARD.encode(der));
    let mut out = String::with_capacity(text.len() + text.len() / LINE + 2 * label.len() + 40);
    out.push_str("-----BEGIN ");
    out.push_str(label);
    out.push_str("-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(LINE));
        out.push_str(line);
        out.push('\n');
        rest = more;
    }
    out.push_str("-----END ");
    out.push_str(label);
    out.push_str("-----\n");
    out
}
