//! What Services mean on a node.
