//! The grpc translator.
