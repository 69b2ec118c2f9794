//! The controllers.
