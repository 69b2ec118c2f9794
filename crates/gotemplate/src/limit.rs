//! How much a template may cost, so that no template and no data can take the program down.

/// Containers inside containers, in data and in results.
pub(crate) const DEEPEST_VALUE: usize = 100;
/// Blocks and parentheses inside each other in one text. Bound to the stack, so not a setting.
pub(crate) const DEEPEST_TEXT: usize = 100;
/// Blocks, parentheses and template calls under way at once. Bound to the stack as well.
pub(crate) const DEEPEST_RUN: usize = 300;

/// What one text and one rendering may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one template text.
    pub text: usize,
    /// Bytes of the output, and of any string on the way to it.
    pub output: usize,
    /// Actions, loop turns, and bytes that functions handle.
    pub work: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { text: 1 << 20, output: 16 << 20, work: 100_000_000 }
    }
}
