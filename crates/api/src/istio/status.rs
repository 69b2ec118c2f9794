//! The status that every Istio resource may carry.

use crate::wire::{IntOrString, choice, message};

message! {
    /// What the control plane has to say about the object.
    pub struct IstioStatus => set("x-kubernetes-preserve-unknown-fields", true) {
        /// State of the object, as far as observed.
        pub conditions: Vec<IstioCondition>,
        /// What analysis found.
        pub validation_messages: Vec<AnalysisMessage>,
        /// Generation of the object that the status is about.
        pub observed_generation: Option<IntOrString>,
    }

    /// One aspect of the state.
    pub struct IstioCondition {
        /// Name of the aspect.
        pub r#type: String,
        /// True, False or Unknown.
        pub status: String,
        /// When it was last looked at.
        pub last_probe_time: String => set("format", "date-time"),
        /// When it last changed.
        pub last_transition_time: String => set("format", "date-time"),
        /// One word on why it is so.
        pub reason: String,
        /// A sentence on why it is so.
        pub message: String,
        /// Generation of the object that the condition is about.
        pub observed_generation: Option<IntOrString>,
    }

    /// One finding of analysis.
    pub struct AnalysisMessage {
        /// What was found.
        pub r#type: AnalysisMessageType,
        /// How bad it is.
        pub level: Level,
        /// Where to read more.
        pub documentation_url: String,
    }

    /// Which finding it is.
    pub struct AnalysisMessageType {
        /// Readable name.
        pub name: String,
        /// Stable code.
        pub code: String,
    }
}

choice! {
    /// How bad a finding is.
    pub enum Level {
        Unknown = "UNKNOWN",
        Error = "ERROR",
        Warning = "WARNING",
        Info = "INFO",
    }
}
