//! Load assignments.

mod locality;
