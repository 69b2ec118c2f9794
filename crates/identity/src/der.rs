//! A small DER writer: just what certificates and requests are made of.
//!
//! Lengths are filled in when an element is done, so nothing is measured beforehand. The caller is
//! responsible for the order that DER wants; every call here writes in the order it is made.

pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const UTF8_STRING: u8 = 0x0c;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;

/// `[number] EXPLICIT` or a constructed implicit tag.
pub(crate) const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// A primitive implicit tag.
pub(crate) const fn context_primitive(number: u8) -> u8 {
    0x80 | number
}

#[derive(Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    /// Something already encoded.
    pub(crate) fn raw(&mut self, der: &[u8]) {
        self.0.extend_from_slice(der);
    }

    pub(crate) fn value(&mut self, tag: u8, content: &[u8]) {
        self.0.push(tag);
        self.length(content.len());
        self.0.extend_from_slice(content);
    }

    pub(crate) fn nested(&mut self, tag: u8, content: impl FnOnce(&mut Self)) {
        self.0.push(tag);
        let start = self.0.len();
        // Room for a length of two bytes, which most of our elements need or nearly need.
        self.0.extend_from_slice(&[0; 3]);
        content(self);
        let length = self.0.len() - start - 3;
        let (encoded, bytes) = encode_length(length);
        let encoded = &encoded[..bytes];
        match bytes <= 3 {
            true => {
                self.0[start..start + bytes].copy_from_slice(encoded);
                if bytes < 3 {
                    self.0.copy_within(start + 3.., start + bytes);
                    self.0.truncate(start + bytes + length);
                }
            }
            false => drop(self.0.splice(start..start + 3, encoded.iter().copied())),
        }
    }

    /// A number that is not negative, given as big-endian bytes.
    pub(crate) fn unsigned(&mut self, bytes: &[u8]) {
        let skip = bytes.iter().take_while(|b| **b == 0).count().min(bytes.len().saturating_sub(1));
        let bytes = &bytes[skip..];
        let pad = bytes.first().is_none_or(|b| b & 0x80 != 0);
        self.0.push(INTEGER);
        self.length(bytes.len() + usize::from(pad));
        if pad {
            self.0.push(0);
        }
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn bit_string(&mut self, bytes: &[u8]) {
        self.0.push(BIT_STRING);
        self.length(bytes.len() + 1);
        self.0.push(0);
        self.0.extend_from_slice(bytes);
    }

    fn length(&mut self, length: usize) {
        let (encoded, bytes) = encode_length(length);
        self.0.extend_from_slice(&encoded[..bytes]);
    }
}

/// The length octets and how many of them count.
fn encode_length(length: usize) -> ([u8; 9], usize) {
    let mut encoded = [0; 9];
    if length < 0x80 {
        encoded[0] = length as u8;
        return (encoded, 1);
    }
    let bytes = length.to_be_bytes();
    let skip = bytes.iter().take_while(|b| **b == 0).count();
    let count = bytes.len() - skip;
    encoded[0] = 0x80 | count as u8;
    encoded[1..=count].copy_from_slice(&bytes[skip..]);
    (encoded, count + 1)
}

/// The elements directly inside `content`: tag and content of each. None when it is not DER, or when
/// there are more than `most`.
pub(crate) fn elements(mut content: &[u8], most: usize) -> Option<Vec<(u8, &[u8])>> {
    let mut found = Vec::new();
    while !content.is_empty() {
        if found.len() == most {
            return None;
        }
        let (tag, inner, rest) = element(content)?;
        found.push((tag, inner));
        content = rest;
    }
    Some(found)
}

/// The first element: its tag, its content and what follows it.
pub(crate) fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = input.split_first()?;
    if tag & 0x1f == 0x1f {
        return None;
    }
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::{SEQUENCE, Writer, element, elements};

    #[test]
    fn lengths_of_every_size_are_written_and_read() {
        for size in [0, 1, 127, 128, 255, 256, 65_535, 65_536, 70_000] {
            let mut writer = Writer::default();
            let body = vec![7; size];
            writer.nested(SEQUENCE, |w| w.value(4, &body));
            let der = writer.finish();
            let (tag, inner, rest) = element(&der).unwrap();
            assert_eq!((tag, rest.len()), (SEQUENCE, 0), "{size}");
            assert_eq!(elements(inner, 1).unwrap(), [(4, body.as_slice())], "{size}");
        }
    }

    #[test]
    fn numbers_stay_positive_and_short() {
        for (bytes, der) in [
            (&[0x80][..], &[2, 2, 0, 0x80][..]),
            (&[0, 0, 1], &[2, 1, 1]),
            (&[0], &[2, 1, 0]),
            (&[], &[2, 1, 0]),
        ] {
            let mut writer = Writer::default();
            writer.unsigned(bytes);
            assert_eq!(writer.finish(), der);
        }
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        for bad in [&[][..], &[0x30], &[0x30, 5, 1], &[0x30, 0x85, 0, 0, 0, 0, 1], &[0x1f, 1, 0]] {
            assert!(element(bad).is_none(), "{bad:?}");
        }
        assert!(elements(&[5, 0, 5, 0], 1).is_none());
    }
}
