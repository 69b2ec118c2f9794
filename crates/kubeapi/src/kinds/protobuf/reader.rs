//! The fields of a protobuf message, one after the other. Bounded by the input; never panics.

use super::{Error, Place};

/// What a field carries, as far as the wire tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl<'a> Payload<'a> {
    pub(super) fn bytes(self, place: Place) -> Result<&'a [u8], Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(mismatch(place)),
        }
    }

    pub(super) fn varint(self, place: Place) -> Result<u64, Error> {
        match self {
            Self::Varint(number) => Ok(number),
            _ => Err(mismatch(place)),
        }
    }

    pub(super) fn double(self, place: Place) -> Result<f64, Error> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            Self::Fixed32(bits) => Ok(f64::from(f32::from_bits(bits))),
            _ => Err(mismatch(place)),
        }
    }

    pub(super) fn text(self, place: Place) -> Result<String, Error> {
        let bytes = self.bytes(place)?;
        let wrong = |_| Error::NotText { message: place.message, field: place.field };
        std::str::from_utf8(bytes).map(str::to_owned).map_err(wrong)
    }
}

fn mismatch(place: Place) -> Error {
    Error::Mismatch { message: place.message, field: place.field }
}

pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next field's number and payload.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Payload<'a>)>, Error> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| Error::Truncated)?;
        let payload = match key & 7 {
            0 => Payload::Varint(self.varint()?),
            1 => Payload::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Error::Truncated)?;
                Payload::Bytes(self.take(length)?)
            }
            5 => Payload::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(Error::WireType(other as u8)),
        };
        Ok(Some((number, payload)))
    }

    /// The next number of a packed list.
    pub(super) fn packed(&mut self) -> Result<Option<u64>, Error> {
        if self.0.is_empty() { Ok(None) } else { self.varint().map(Some) }
    }

    fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.take(1)?[0];
            if shift < 64 {
                value |= u64::from(byte & 0x7f) << shift;
            }
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::Truncated)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        self.take(N)?.try_into().map_err(|_| Error::Truncated)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }
}
