//! Server-side apply: owners, conflicts, removal, order; sequences whose outcome a kube-apiserver
//! gave in the same way.
