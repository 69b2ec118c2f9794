//! The types of resources that proxies ask for, and what is counted for each.

use std::fmt;

use ironsail_xds::{CDS, ECDS, EDS, LDS, RDS, SDS};

pub const NDS: &str = "type.googleapis.com/istio.networking.nds.v1.NameTable";
pub const DEBUG: &str = "istio.io/debug";
pub const DEBUG_SYNCZ: &str = "istio.io/debug/syncz";
pub const DEBUG_CONFIG_DUMP: &str = "istio.io/debug/config_dump";

/// A type of resource that is translated. The order is that of the translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Cluster,
    Endpoint,
    Listener,
    Route,
    Secret,
    Extension,
    NameTable,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Cluster,
        Self::Endpoint,
        Self::Listener,
        Self::Route,
        Self::Secret,
        Self::Extension,
        Self::NameTable,
    ];

    pub fn of(type_url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == type_url)
    }

    pub fn type_url(self) -> &'static str {
        match self {
            Self::Cluster => CDS,
            Self::Endpoint => EDS,
            Self::Listener => LDS,
            Self::Route => RDS,
            Self::Secret => SDS,
            Self::Extension => ECDS,
            Self::NameTable => NDS,
        }
    }

    /// As metrics and people call it.
    pub fn short(self) -> &'static str {
        match self {
            Self::Cluster => "cds",
            Self::Endpoint => "eds",
            Self::Listener => "lds",
            Self::Route => "rds",
            Self::Secret => "sds",
            Self::Extension => "ecds",
            Self::NameTable => "nds",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn a_kind_is_found_by_its_url() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(kind.type_url()), Some(kind));
        }
        assert_eq!(Kind::of("istio.io/debug"), None);
    }
}
