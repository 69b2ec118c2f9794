//! The wire format of protobuf: numbered fields, read without copying.

use super::Error;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Field<'a> {
    pub(super) number: u32,
    pub(super) payload: Payload<'a>,
}

impl<'a> Field<'a> {
    pub(super) fn bytes(&self) -> Option<&'a [u8]> {
        match self.payload {
            Payload::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Result<&'a str, Error> {
        let text = self.bytes().and_then(|b| std::str::from_utf8(b).ok());
        text.ok_or(Error::Malformed("a text is missing or not UTF-8"))
    }

    pub(super) fn integer(&self) -> Result<i64, Error> {
        match self.payload {
            Payload::Varint(number) => Ok(number.cast_signed()),
            _ => Err(Error::Malformed("a number is missing where one should be")),
        }
    }

    /// Zero, or no bytes.
    pub(super) fn is_empty(&self) -> bool {
        match self.payload {
            Payload::Varint(number) | Payload::Fixed64(number) => number == 0,
            Payload::Fixed32(number) => number == 0,
            Payload::Bytes(bytes) => bytes.is_empty(),
        }
    }
}

/// The fields of a message in their order; ends at the first error.
pub(super) fn fields(mut bytes: &[u8]) -> impl Iterator<Item = Result<Field<'_>, Error>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let field = next(&mut bytes).ok_or(Error::Malformed("a field is cut short"));
        if field.is_err() {
            bytes = &[];
        }
        Some(field)
    })
}

fn next<'a>(bytes: &mut &'a [u8]) -> Option<Field<'a>> {
    let tag = varint(bytes)?;
    let number = u32::try_from(tag >> 3).ok()?;
    let payload = match tag & 7 {
        0 => Payload::Varint(varint(bytes)?),
        1 => Payload::Fixed64(u64::from_le_bytes(take(bytes, 8)?.try_into().ok()?)),
        2 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            Payload::Bytes(take(bytes, length)?)
        }
        5 => Payload::Fixed32(u32::from_le_bytes(take(bytes, 4)?.try_into().ok()?)),
        _ => return None,
    };
    Some(Field { number, payload })
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(head)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut out = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        out |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(out);
        }
    }
    None
}
