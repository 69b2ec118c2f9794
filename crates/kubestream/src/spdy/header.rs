//! Header blocks of SPDY/3: pairs of names and values, compressed with one zlib stream per
//! direction and a dictionary that both ends know.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use super::Error;

/// A client's headers are a few short words; more is no honest client.
const MAX_BLOCK: usize = 64 << 10;

const WORDS: &[&str] = &[
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];

const TAIL: &str = "10010120120220520630030230330430530630740240540640740840941041141241341441541\
                    6417502504505203 Non-Authoritative Information204 No Content301 Moved \
                    Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 \
                    Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr \
                    May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, \
                    GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/\
                    xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch\
                    charset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

/// The dictionary of the specification: words with their lengths, then fragments.
fn dictionary() -> Vec<u8> {
    let mut out = Vec::new();
    for word in WORDS {
        put(&mut out, word.as_bytes());
    }
    out.extend_from_slice(TAIL.as_bytes());
    out
}

fn put(out: &mut Vec<u8>, text: &[u8]) {
    let length = u32::try_from(text.len()).expect("headers are short");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(text);
}

pub(crate) type Headers = Vec<(String, String)>;

/// Reads the blocks of one direction. Every block must pass, in order: they share one stream.
pub(super) struct Decoder(Decompress);

impl Decoder {
    pub(super) fn new() -> Self {
        Self(Decompress::new(true))
    }

    pub(super) fn decode(&mut self, block: &[u8]) -> Result<Headers, Error> {
        let plain = self.inflate(block)?;
        parse(&plain).ok_or(Error::Protocol("a malformed header block"))
    }

    fn inflate(&mut self, mut input: &[u8]) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(1024);
        loop {
            if out.len() == out.capacity() {
                if out.len() >= MAX_BLOCK {
                    return Err(Error::Protocol("a header block that is too long"));
                }
                out.reserve(1024);
            }
            let (before, produced) = (self.0.total_in(), out.len());
            let outcome = self.0.decompress_vec(input, &mut out, FlushDecompress::Sync);
            let taken = usize::try_from(self.0.total_in() - before).unwrap_or(input.len());
            input = &input[taken.min(input.len())..];
            match outcome {
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0
                        .set_dictionary(&dictionary())
                        .map_err(|_| Error::Protocol("an unknown header dictionary"))?;
                }
                Err(_) => return Err(Error::Protocol("a header block that is not zlib")),
                Ok(_) if input.is_empty() && out.len() < out.capacity() => return Ok(out),
                Ok(_) if taken == 0 && out.len() == produced && out.len() < out.capacity() => {
                    return Err(Error::Protocol("a header block that does not end"));
                }
                Ok(_) => {}
            }
        }
    }
}

/// Writes the blocks of one direction.
pub(crate) struct Encoder(Compress);

impl Encoder {
    pub(crate) fn new() -> Self {
        let mut compress = Compress::new(Compression::fast(), true);
        compress.set_dictionary(&dictionary()).expect("nothing was compressed yet");
        Self(compress)
    }

    pub(crate) fn encode(&mut self, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut plain = Vec::new();
        let count = u32::try_from(headers.len()).expect("headers are few");
        plain.extend_from_slice(&count.to_be_bytes());
        for (name, value) in headers {
            put(&mut plain, name.as_bytes());
            put(&mut plain, value.as_bytes());
        }
        let mut out = Vec::with_capacity(plain.len() + 64);
        let mut input = plain.as_slice();
        loop {
            let before = self.0.total_in();
            self.0
                .compress_vec(input, &mut out, FlushCompress::Sync)
                .expect("compressing into memory cannot fail");
            let taken = usize::try_from(self.0.total_in() - before).unwrap_or(input.len());
            input = &input[taken.min(input.len())..];
            if input.is_empty() && out.len() < out.capacity() {
                return out;
            }
            out.reserve(256);
        }
    }
}

fn parse(mut block: &[u8]) -> Option<Headers> {
    let count = number(&mut block)?;
    let mut headers = Headers::new();
    for _ in 0..count {
        let name = text(&mut block)?;
        headers.push((name.to_ascii_lowercase(), text(&mut block)?));
    }
    Some(headers)
}

fn number(block: &mut &[u8]) -> Option<usize> {
    let (head, rest) = block.split_first_chunk::<4>()?;
    *block = rest;
    usize::try_from(u32::from_be_bytes(*head)).ok()
}

fn text(block: &mut &[u8]) -> Option<String> {
    let length = number(block)?;
    let (head, rest) = block.split_at_checked(length)?;
    *block = rest;
    String::from_utf8(head.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_dictionary_is_that_of_the_specification() {
        let (mut a, mut b) = (1_u32, 0_u32);
        for byte in dictionary() {
            a = (a + u32::from(byte)) % 65521;
            b = (b + a) % 65521;
        }
        assert_eq!((dictionary().len(), b << 16 | a), (1423, 0xe3c6_a7c2));
    }

    #[test]
    fn blocks_follow_each_other_in_one_stream() {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        for round in 0..50 {
            let id = round.to_string();
            let headers = [("streamtype", "data"), ("port", "8080"), ("requestid", id.as_str())];
            let block = encoder.encode(&headers);
            let expected: Headers =
                headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            assert_eq!(decoder.decode(&block).unwrap(), expected);
        }
    }

    #[test]
    fn a_bomb_is_refused() {
        let long = "x".repeat(1 << 20);
        let block = Encoder::new().encode(&[("a", &long)]);
        assert!(block.len() < MAX_BLOCK, "it fits into a control frame");
        assert!(Decoder::new().decode(&block).is_err());
    }

    proptest! {
        #[test]
        fn no_block_makes_us_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Decoder::new().decode(&bytes);
            let _ = parse(&bytes);
            let mut block = Encoder::new().encode(&[("a", "b")]);
            for (at, byte) in bytes.iter().enumerate() {
                let at = (at * 7) % block.len();
                block[at] ^= byte;
            }
            let _ = Decoder::new().decode(&block);
        }
    }
}
