//! Label and field selectors of lists and watches.

pub(crate) mod field;
pub(crate) mod label;

pub(crate) use field::FieldSelector;
pub(crate) use label::LabelSelector;
