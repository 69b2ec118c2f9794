//! The handler through an in-process client.
