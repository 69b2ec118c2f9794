//! Fields that others own and this apply would change.

use std::{collections::BTreeMap, fmt};

use super::{managed::ManagerId, path::Step};

/// One field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// As texts name the other manager: `"kubectl" using apps/v1`.
    pub manager: String,
    /// As in `.spec.replicas`.
    pub field: String,
    path: Vec<Step>,
}

impl Conflict {
    pub(super) fn new(manager: &ManagerId, path: Vec<Step>) -> Self {
        let field = path.iter().map(Step::to_string).collect();
        Self { manager: manager.describe(), field, path }
    }

    pub(super) fn path(&self) -> &[Step] {
        &self.path
    }

    /// The text of `status.details.causes[].message`; its reason is `FieldManagerConflict`.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// All conflicts of one apply; at least one. The text is that of the 409 answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: {}: {}", one.message(), one.field);
        }
        let mut by_manager: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for conflict in &self.0 {
            by_manager.entry(&conflict.manager).or_default().push(&conflict.field);
        }
        let mut lines = Vec::new();
        for (manager, fields) in by_manager {
            lines.push(format!("conflicts with {manager}:"));
            lines.extend(fields.iter().map(|field| format!("- {field}")));
        }
        write!(f, "Apply failed with {} conflicts: {}", self.0.len(), lines.join("\n"))
    }
}

impl std::error::Error for Conflicts {}
