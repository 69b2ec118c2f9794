//! The API.

pub mod admission;
pub mod auth;
