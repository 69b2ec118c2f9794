//! Text under construction that cannot outgrow its limit.
//!
//! Writers push without looking; what is past the limit is dropped and `finish` refuses. Writers
//! that walk values look at `is_broken` so that they stop soon after.

use crate::error::Fault;

pub(crate) struct Buffer {
    text: String,
    limit: usize,
    broken: Option<&'static str>,
}

impl Buffer {
    pub(crate) fn new(limit: usize) -> Self {
        Self { text: String::new(), limit, broken: None }
    }

    pub(crate) fn push(&mut self, piece: &str) {
        if self.broken.is_some() {
            return;
        }
        if piece.len() > self.limit - self.text.len() {
            self.broken = Some("the text grows past the size limit");
            return;
        }
        self.text.push_str(piece);
    }

    pub(crate) fn push_char(&mut self, c: char) {
        self.push(c.encode_utf8(&mut [0; 4]));
    }

    pub(crate) fn pad(&mut self, c: char, count: usize) {
        if count > self.limit {
            self.stop("the text grows past the size limit");
        }
        for _ in 0..count {
            if self.is_broken() {
                return;
            }
            self.push_char(c);
        }
    }

    /// Gives up: `finish` will fail with this reason.
    pub(crate) fn stop(&mut self, why: &'static str) {
        self.broken.get_or_insert(why);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    pub(crate) fn check(&self) -> Result<(), Fault> {
        match self.broken {
            Some(why) => Err(Fault::Bound(why.to_owned())),
            None => Ok(()),
        }
    }

    pub(crate) fn finish(self) -> Result<String, Fault> {
        self.check()?;
        Ok(self.text)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}
