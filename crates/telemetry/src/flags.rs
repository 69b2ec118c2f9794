//! Response flags: Envoy's bits as the short names that logs and labels show.

/// By bit. The order is Envoy's and only ever grows.
const NAMES: [&str; 30] = [
    "LH", "UH", "UT", "LR", "UR", "UF", "UC", "UO", "NR", "DI", "FI", "RL", "UAEX", "RLSE", "DC",
    "URX", "SI", "IH", "DPE", "UMSDR", "RFCF", "NFCF", "DT", "UPE", "NC", "OM", "DF", "DO", "DR",
    "UDO",
];

/// `-` without flags; bits that are not known here are left out.
pub fn write(bits: u64, into: &mut String) {
    let start = into.len();
    for (bit, name) in NAMES.iter().enumerate() {
        if bits & (1 << bit) != 0 {
            if into.len() > start {
                into.push(',');
            }
            into.push_str(name);
        }
    }
    if into.len() == start {
        into.push('-');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bits: u64) -> String {
        let mut out = String::new();
        write(bits, &mut out);
        out
    }

    #[test]
    fn no_flag_is_a_dash_and_several_are_joined() {
        assert_eq!(text(0), "-");
        assert_eq!(text(1 << 8), "NR");
        assert_eq!(text((1 << 5) | (1 << 15)), "UF,URX");
        assert_eq!(text(1 << 63), "-");
    }
}
