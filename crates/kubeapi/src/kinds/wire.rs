//! The wire types of the built-in kinds: which fields each struct has, of which type, how a zero is
//! written and how lists are merged.
//!
//! In come the tables in `wire/*.txt`, one per package; out goes [`Types`], read once on first use.
//! A table line `  name type flags…` below a line `Struct` is one field. Types: `string`, `bool`,
//! `int32`, `int64`, `uint32`, `float64`, `bytes` (base64), `quantity`, `intstr`, `time`, `microtime`,
//! `duration`, `raw` and `json` (anything), `[]T`, `{}T` (map of strings to T), `orbool:T`,
//! `orarray:T`, `orstrings:T`, `v1.Name=T` (T with a name of its own, shown in errors), a struct of the
//! same package, or `package/Struct`. Flags: `ptr` (zero and absent differ), `omit` (zero is left
//! out), `req` (required in the published schema), `atomic`, `set`, `granular`, `map:keys` (how
//! server-side apply treats the field), `patch:strategy` and `key:name` (strategic merge patch).
//!
//! It must not know what a field means; that is the business of the families.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

/// The index of a struct in [`Types::structs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StructId(u16);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    String,
    Bool,
    Int {
        bits: u8,
        signed: bool,
    },
    Float,
    Bytes,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    Duration,
    /// Kept as it is.
    Any,
    List(Box<Type>),
    Map(Box<Type>),
    Struct(StructId),
    OrBool(StructId),
    OrArray(StructId),
    OrStrings(StructId),
    /// A type with a name of its own, such as `v1.RestartPolicy`.
    Named(&'static str, Box<Type>),
}

impl Type {
    /// Without its own name.
    pub(super) fn plain(&self) -> &Self {
        match self {
            Self::Named(_, inner) => inner.plain(),
            other => other,
        }
    }
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Type,
    pub(super) pointer: bool,
    pub(super) omit: bool,
    pub(super) required: bool,
    /// `atomic`, `set`, `granular` or `map:key,…`.
    pub(super) merge: Option<&'static str>,
    pub(super) patch_strategy: Option<&'static str>,
    pub(super) patch_key: Option<&'static str>,
}

#[derive(Debug)]
pub(super) struct Struct {
    /// As in `core.v1`.
    pub(super) package: &'static str,
    pub(super) name: &'static str,
    pub(super) atomic: bool,
    pub(super) fields: Vec<Field>,
}

impl Struct {
    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }
}

#[derive(Debug)]
pub(super) struct Types {
    structs: Vec<Struct>,
    by_name: FxHashMap<(&'static str, &'static str), StructId>,
}

impl Types {
    pub(super) fn get(&self, id: StructId) -> &Struct {
        &self.structs[usize::from(id.0)]
    }

    pub(super) fn find(&self, package: &str, name: &str) -> Option<StructId> {
        self.by_name.get(&(package, name)).copied()
    }
}

const TABLES: [(&str, &str); 19] = [
    ("admissionregistration.v1", include_str!("wire/admissionregistration.v1.txt")),
    ("apiextensions.v1", include_str!("wire/apiextensions.v1.txt")),
    ("apps.v1", include_str!("wire/apps.v1.txt")),
    ("authentication.v1", include_str!("wire/authentication.v1.txt")),
    ("authorization.v1", include_str!("wire/authorization.v1.txt")),
    ("autoscaling.v1", include_str!("wire/autoscaling.v1.txt")),
    ("autoscaling.v2", include_str!("wire/autoscaling.v2.txt")),
    ("batch.v1", include_str!("wire/batch.v1.txt")),
    ("certificates.v1", include_str!("wire/certificates.v1.txt")),
    ("coordination.v1", include_str!("wire/coordination.v1.txt")),
    ("core.v1", include_str!("wire/core.v1.txt")),
    ("discovery.v1", include_str!("wire/discovery.v1.txt")),
    ("events.v1", include_str!("wire/events.v1.txt")),
    ("meta.v1", include_str!("wire/meta.v1.txt")),
    ("networking.v1", include_str!("wire/networking.v1.txt")),
    ("node.v1", include_str!("wire/node.v1.txt")),
    ("policy.v1", include_str!("wire/policy.v1.txt")),
    ("rbac.v1", include_str!("wire/rbac.v1.txt")),
    ("scheduling.v1", include_str!("wire/scheduling.v1.txt")),
];

/// All types, read on first use.
pub(super) fn types() -> &'static Types {
    static TYPES: LazyLock<Types> = LazyLock::new(|| read(&TABLES));
    &TYPES
}

fn read(tables: &[(&'static str, &'static str)]) -> Types {
    let mut types = Types { structs: Vec::new(), by_name: FxHashMap::default() };
    for (package, text) in tables {
        for line in lines(text).filter(|l| !l.starts_with(' ')) {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default();
            let id =
                StructId(u16::try_from(types.structs.len()).expect("fewer than 65536 structs"));
            let atomic = words.next() == Some("atomic");
            types.by_name.insert((package, name), id);
            types.structs.push(Struct { package, name, atomic, fields: Vec::new() });
        }
    }
    let mut at = 0;
    for (package, text) in tables {
        let mut first = true;
        for line in lines(text) {
            if !line.starts_with(' ') {
                at += usize::from(!first);
                first = false;
            } else {
                let field = field(line.trim(), package, &types);
                types.structs[at].fields.push(field);
            }
        }
        at += 1;
    }
    types
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'))
}

fn field(line: &'static str, package: &'static str, types: &Types) -> Field {
    let mut words = line.split(' ');
    let name = words.next().expect("a field line has a name");
    let kind = kind(words.next().expect("a field line has a type"), package, types);
    let mut field = Field {
        name,
        kind,
        pointer: false,
        omit: false,
        required: false,
        merge: None,
        patch_strategy: None,
        patch_key: None,
    };
    for word in words {
        match word {
            "ptr" => field.pointer = true,
            "omit" => field.omit = true,
            "omitzero" => {}
            "req" => field.required = true,
            merge => match merge.split_once(':') {
                Some(("patch", strategy)) => field.patch_strategy = Some(strategy),
                Some(("key", key)) => field.patch_key = Some(key),
                _ => field.merge = Some(merge),
            },
        }
    }
    field
}

fn kind(text: &'static str, package: &'static str, types: &Types) -> Type {
    let id = |name: &'static str| {
        let (package, name) = name.split_once('/').unwrap_or((package, name));
        types
            .find(package, name)
            .unwrap_or_else(|| panic!("no struct {package}/{name} in the tables"))
    };
    if let Some(item) = text.strip_prefix("[]") {
        return Type::List(Box::new(kind(item, package, types)));
    }
    if let Some(item) = text.strip_prefix("{}") {
        return Type::Map(Box::new(kind(item, package, types)));
    }
    if let Some((name, inner)) = text.split_once('=') {
        return Type::Named(name, Box::new(kind(inner, package, types)));
    }
    match text.split_once(':') {
        Some(("orbool", of)) => return Type::OrBool(id(of)),
        Some(("orarray", of)) => return Type::OrArray(id(of)),
        Some(("orstrings", of)) => return Type::OrStrings(id(of)),
        _ => {}
    }
    match text {
        "string" => Type::String,
        "bool" => Type::Bool,
        "int32" => Type::Int { bits: 32, signed: true },
        "int64" => Type::Int { bits: 64, signed: true },
        "uint32" => Type::Int { bits: 32, signed: false },
        "float64" => Type::Float,
        "bytes" => Type::Bytes,
        "quantity" => Type::Quantity,
        "intstr" => Type::IntOrString,
        "time" => Type::Time,
        "microtime" => Type::MicroTime,
        "duration" => Type::Duration,
        "raw" | "json" => Type::Any,
        name => Type::Struct(id(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_read_and_every_reference_resolves() {
        let types = types();
        let pod = types.get(types.find("core.v1", "Pod").unwrap());
        assert_eq!(pod.name, "Pod");
        let spec = pod.field("spec").unwrap();
        let Type::Struct(id) = spec.kind else { panic!("{spec:?}") };
        let containers = types.get(id).field("containers").unwrap();
        assert_eq!(containers.patch_key, Some("name"));
        assert_eq!(containers.merge, Some("map:name"));
        assert!(containers.required && !containers.omit);
        assert!(types.structs.iter().all(|s| !s.name.is_empty()));
        assert!(types.get(types.find("meta.v1", "LabelSelector").unwrap()).atomic);
    }
}
