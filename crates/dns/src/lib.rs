//! DNS.
