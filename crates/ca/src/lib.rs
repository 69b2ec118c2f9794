//! The mesh's certificate authority: who calls, what is signed for it, where roots are kept.
//!
//! In: requests of workloads with their tokens or certificates, and key material of Secrets or mounted
//! files; out: certificates for exactly the identity that was proved, and the current roots for whoever
//! distributes them. It does not write ConfigMaps and listens on no port.

mod authenticate;
mod authority;
mod caller;
mod external;
mod federation;
mod folder;
mod impersonate;
mod material;
mod metrics;
mod service;
mod serving;
mod sign;
mod strongbox;
#[cfg(test)]
mod testing;

pub use authenticate::{
    Authenticator, ClientCertificates, Error as AuthenticationError, Evidence, KeySource, Method,
    OfflineTokens, Refusal, TokenReviews,
};
pub use authority::{
    Authority, CA_SECRET, CACERTS_SECRET, Error as AuthorityError, Followers, RootError,
    Settings as AuthoritySettings, new_root,
};
pub use caller::{BoundObject, Caller, Domains, Proof};
pub use external::{
    Error as ExternalError, ExternalSigner, KubernetesSigner, Registration, RootsOf, Wanted,
};
pub use federation::{Error as FederationError, FederatedBundle};
pub use impersonate::{Error as ImpersonationError, NodeAgents, PodFacts, PodLookup};
pub use material::{Error as MaterialError, Files, Origin, Signing};
pub use metrics::{Metrics, Sample, SampleKind};
pub use service::CertificateService;
pub use serving::{Error as ServingError, Serving, ServingFiles, serving_names};
pub use sign::{Error as SignError, Limits};
pub use strongbox::{
    Contents, Error as StrongboxError, MemoryStrongbox, SecretStrongbox, Strongbox,
};
