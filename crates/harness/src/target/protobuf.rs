//! Objects in Kubernetes' protobuf encoding.

use crate::sample;
use arbitrary::{Arbitrary, Result, Unstructured};
use ironsail_kubeapi::kinds::protobuf;

/// Fields of a message, with numbers that are in use.
#[derive(Debug)]
struct Message(Vec<u8>);

impl<'a> Arbitrary<'a> for Message {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut out = Vec::new();
        message(u, 0, &mut out)?;
        Ok(Self(out))
    }
}

fn message(u: &mut Unstructured<'_>, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    for _ in 0..u.int_in_range(0..=6)? {
        let number: u64 = u.int_in_range(1..=40)?;
        match u.int_in_range(0..=5)? {
            0 => {
                varint(number << 3, out);
                varint(
                    if u.arbitrary()? { u.arbitrary::<u8>()?.into() } else { u.arbitrary()? },
                    out,
                );
            }
            1 => {
                varint(number << 3 | 1, out);
                out.extend_from_slice(&u.arbitrary::<[u8; 8]>()?);
            }
            2 => {
                varint(number << 3 | 5, out);
                out.extend_from_slice(&u.arbitrary::<[u8; 4]>()?);
            }
            3 => {
                let text: &str = u.arbitrary()?;
                field(number, text.as_bytes(), out);
            }
            _ => {
                let mut inner = Vec::new();
                if depth < 8 {
                    message(u, depth + 1, &mut inner)?;
                }
                field(number, &inner, out);
            }
        }
    }
    Ok(())
}

fn field(number: u64, bytes: &[u8], out: &mut Vec<u8>) {
    varint(number << 3 | 2, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Raw(&'a [u8]),
    Object { sample: u8, message: Message, rest: &'a [u8] },
}

pub(crate) fn target(bytes: &[u8]) {
    let Some(input) = crate::made::<Input>(bytes) else { return };
    let bytes = match input {
        Input::Raw(bytes) => [b"k8s\0", bytes].concat(),
        Input::Object { sample, message, rest } => {
            let sample = &sample::all()[usize::from(sample) % sample::all().len()];
            let mut meta = Vec::new();
            field(1, sample["apiVersion"].as_str().unwrap_or_default().as_bytes(), &mut meta);
            field(2, sample["kind"].as_str().unwrap_or_default().as_bytes(), &mut meta);
            let mut out = b"k8s\0".to_vec();
            field(1, &meta, &mut out);
            field(2, &message.0, &mut out);
            out.extend_from_slice(rest);
            out
        }
    };
    if let Ok(object) = protobuf::read(&bytes) {
        assert!(object["kind"].is_string() && object["apiVersion"].is_string(), "{object}");
    }
}
