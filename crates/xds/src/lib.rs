//! Discovery as a protocol: who wants which resources, and what to send them.
