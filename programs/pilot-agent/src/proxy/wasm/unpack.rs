//! The module inside what was fetched: plain, compressed, or in an archive as images have it.

use std::io::Read;

use bytes::Bytes;

use super::fetch::Error;

/// Most that comes out of a compressed layer.
const MAX_UNPACKED: u64 = 512 << 20;
const BLOCK: usize = 512;

/// Opens `bytes` as far as they are packed.
pub(super) fn module(bytes: Bytes) -> Result<Bytes, Error> {
    let bytes = match bytes.starts_with(&[0x1f, 0x8b]) {
        true => inflated(&bytes)?,
        false => bytes,
    };
    match bytes.starts_with(b"\0asm") {
        true => Ok(bytes),
        false => from_archive(&bytes).ok_or(Error::NotAModule),
    }
}

fn inflated(bytes: &[u8]) -> Result<Bytes, Error> {
    let mut out = Vec::new();
    let mut reader = flate2::read::GzDecoder::new(bytes).take(MAX_UNPACKED);
    reader.read_to_end(&mut out).map_err(|error| Error::Image(format!("unpacking it: {error}")))?;
    Ok(out.into())
}

/// The first file of an archive whose name ends in `.wasm`.
fn from_archive(bytes: &Bytes) -> Option<Bytes> {
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + BLOCK) {
        let name = header[..100].split(|byte| *byte == 0).next()?;
        if name.is_empty() {
            return None;
        }
        let size = std::str::from_utf8(&header[124..136]).ok()?;
        let size = usize::from_str_radix(size.trim_matches(['\0', ' ']), 8).ok()?;
        let start = at + BLOCK;
        let end = start.checked_add(size)?;
        let is_file = matches!(header[156], b'0' | 0);
        if is_file && name.ends_with(b".wasm") && end <= bytes.len() {
            return Some(bytes.slice(start..end));
        }
        at = start.checked_add(size.div_ceil(BLOCK).checked_mul(BLOCK)?)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn archive(name: &str, content: &[u8]) -> Vec<u8> {
        let mut out = vec![0; BLOCK];
        out[..name.len()].copy_from_slice(name.as_bytes());
        out[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        out[156] = b'0';
        out.extend_from_slice(content);
        out.resize(out.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
        out
    }

    #[test]
    fn a_module_is_found_however_it_is_packed() {
        let plain = Bytes::from_static(b"\0asm1234");
        assert_eq!(module(plain.clone()).unwrap(), plain);
        let packed = archive("plugin.wasm", &plain);
        assert_eq!(module(packed.clone().into()).unwrap(), plain);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&packed).unwrap();
        assert_eq!(module(gzip.finish().unwrap().into()).unwrap(), plain);
        assert!(module(archive("readme", b"x").into()).is_err());
        assert!(module(Bytes::from_static(b"<html>")).is_err());
    }

    proptest::proptest! {
        #[test]
        fn garbage_is_refused_and_never_followed(bytes: Vec<u8>) {
            let _ = module(bytes.into());
        }
    }
}
