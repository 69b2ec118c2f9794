//! End-to-end tests, one file a feature, in `tests/`. This library is empty: what the tests share is
//! in `testkit`.
