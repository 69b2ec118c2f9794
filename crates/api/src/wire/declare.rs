//! The macros that declare types: `message!` a proto message, `oneof!` a choice among fields,
//! `choice!` an enum by name.
//!
//! Before a field's type may stand `as "name"`, its name in JSON if that is not the usual one; after
//! it may follow `= value`, its default, and `=> a().b()`, calls on its [`Node`](crate::wire::Node)
//! that say more about it than the type does.

macro_rules! or_default {
    () => {
        Default::default()
    };
    ($default:expr) => {
        $default
    };
}

macro_rules! message {
    ($(
        $(#[doc = $doc:literal])*
        pub struct $name:ident $(=> $($do:ident($($with:expr),* $(,)?)).+)? {
            $(
                $(#[doc = $field_doc:literal])*
                pub $field:ident $(as $json:literal)?: $type:ty $(= $default:expr)? $(=> $($and:ident($($arg:expr),* $(,)?)).+)?
            ),* $(,)?
        }
    )+) => { $(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[allow(unreachable_pub, reason = "some messages are for one module only")]
        pub struct $name {
            $( $(#[doc = $field_doc])* pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $crate::wire::or_default!($($default)?), )* }
            }
        }

        impl $name {
            fn field_names() -> impl Iterator<Item = &'static $crate::wire::Name> {
                static NAMES: std::sync::LazyLock<Vec<$crate::wire::Name>> =
                    std::sync::LazyLock::new(|| $crate::wire::names(&[$((stringify!($field), None $(.or(Some($json)))?)),*]));
                NAMES.iter()
            }

            /// Takes over the fields that `value` has and leaves the others alone.
            #[allow(unused_variables, unused_mut, unreachable_pub, reason = "a message may have no fields, or be for one module only")]
            pub fn apply(&mut self, value: &serde_json::Value, reader: &mut $crate::wire::Reader) {
                let Some(mut open) = reader.open(value) else { return };
                let mut names = Self::field_names();
                $(
                    if let Some(name) = names.next() {
                        $crate::wire::Wire::read_field(&mut self.$field, &mut open, name, reader);
                    }
                )*
                open.finish(reader);
            }
        }

        impl $crate::wire::Wire for $name {
            fn read(value: &serde_json::Value, reader: &mut $crate::wire::Reader) -> Self {
                let mut read = Self::default();
                read.apply(value, reader);
                read
            }

            #[allow(unused_variables, unused_mut, reason = "a message may have no fields")]
            fn write(&self) -> serde_json::Value {
                let mut object = serde_json::Map::new();
                let mut names = Self::field_names();
                $(
                    if let Some(name) = names.next() {
                        let always = false $(|| { let _ = stringify!($default); true })?;
                        $crate::wire::Wire::write_field(&self.$field, name, always, &mut object);
                    }
                )*
                serde_json::Value::Object(object)
            }

            #[allow(unused_variables, unused_mut, reason = "a message may have no fields")]
            fn schema() -> $crate::wire::Node {
                let mut node = $crate::wire::Node::of("object").describe(&[$($doc),*]);
                let mut names = Self::field_names();
                $(
                    if let Some(name) = names.next() {
                        <$type as $crate::wire::Wire>::schema_field(&mut node, name, |node| {
                            node.describe(&[$($field_doc),*])$($(.$and($($arg),*))+)?
                        });
                    }
                )*
                node$($(.$do($($with),*))+)?
            }

            fn is_absent(&self) -> bool {
                *self == Self::default()
            }
        }

        $crate::wire::as_serde!($name);
    )+ };
}

macro_rules! oneof {
    ($(
        $(#[doc = $doc:literal])*
        pub enum $name:ident {
            $(
                $(#[doc = $field_doc:literal])*
                $variant:ident($type:ty) = $field:ident $(=> $($and:ident($($arg:expr),* $(,)?)).+)?
            ),+ $(,)?
        }
    )+) => { $(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub enum $name {
            #[default]
            Unset,
            $( $(#[doc = $field_doc])* $variant($type), )+
        }

        impl $name {
            fn field_names() -> impl Iterator<Item = &'static $crate::wire::Name> {
                static NAMES: std::sync::LazyLock<Vec<$crate::wire::Name>> =
                    std::sync::LazyLock::new(|| $crate::wire::names(&[$((stringify!($field), None)),+]));
                NAMES.iter()
            }

            #[must_use]
            pub fn is_unset(&self) -> bool {
                matches!(self, Self::Unset)
            }

            fn read_fields(
                open: &mut $crate::wire::Open<'_>,
                reader: &mut $crate::wire::Reader,
            ) -> Option<Self> {
                let mut names = Self::field_names();
                let mut found = None;
                $(
                    if let Some(name) = names.next()
                        && let Some((key, value)) = open.take(name, reader)
                    {
                        reader.enter_field(key);
                        if found.is_some() {
                            reader.invalid("must not be set together with another alternative");
                        } else {
                            found = Some(Self::$variant(<$type as $crate::wire::Wire>::read(value, reader)));
                        }
                        reader.leave();
                    }
                )+
                found
            }

            fn write_fields(&self, object: &mut serde_json::Map<String, serde_json::Value>) {
                let mut names = Self::field_names();
                $(
                    if let Some(name) = names.next()
                        && let Self::$variant(value) = self
                    {
                        $crate::wire::Wire::write_field(value, name, true, object);
                    }
                )+
            }

            fn add_properties(node: &mut $crate::wire::Node) {
                let mut names = Self::field_names();
                $(
                    if let Some(name) = names.next() {
                        <$type as $crate::wire::Wire>::schema_field(node, name, |node| {
                            node.describe(&[$($field_doc),*])$($(.$and($($arg),*))+)?
                        });
                    }
                )+
                node.exclusive(Self::field_names().map(|name| name.camel.clone()).collect());
            }
        }

        /// As a field of a message its alternatives are fields of that message; elsewhere it is an
        /// object of its own.
        impl $crate::wire::Wire for $name {
            fn read(value: &serde_json::Value, reader: &mut $crate::wire::Reader) -> Self {
                let Some(mut open) = reader.open(value) else { return Self::Unset };
                let read = Self::read_fields(&mut open, reader).unwrap_or_default();
                open.finish(reader);
                read
            }

            fn write(&self) -> serde_json::Value {
                let mut object = serde_json::Map::new();
                self.write_fields(&mut object);
                serde_json::Value::Object(object)
            }

            fn schema() -> $crate::wire::Node {
                let mut node = $crate::wire::Node::of("object").describe(&[$($doc),*]);
                Self::add_properties(&mut node);
                node
            }

            fn is_absent(&self) -> bool {
                self.is_unset()
            }

            fn read_field(
                &mut self,
                open: &mut $crate::wire::Open<'_>,
                _: &$crate::wire::Name,
                reader: &mut $crate::wire::Reader,
            ) {
                if let Some(found) = Self::read_fields(open, reader) {
                    *self = found;
                }
            }

            fn write_field(
                &self,
                _: &$crate::wire::Name,
                _: bool,
                object: &mut serde_json::Map<String, serde_json::Value>,
            ) {
                self.write_fields(object);
            }

            fn schema_field(
                parent: &mut $crate::wire::Node,
                _: &$crate::wire::Name,
                _: impl FnOnce($crate::wire::Node) -> $crate::wire::Node,
            ) {
                Self::add_properties(parent);
            }
        }

        $crate::wire::as_serde!($name);
    )+ };
}

macro_rules! choice {
    ($(
        $(#[doc = $doc:literal])*
        pub enum $name:ident {
            $(#[doc = $zero_doc:literal])*
            $zero:ident = $zero_text:literal
            $(, $(#[doc = $variant_doc:literal])* $variant:ident = $text:literal)* $(,)?
        }
    )+) => { $(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            #[default]
            $(#[doc = $zero_doc])*
            $zero,
            $( $(#[doc = $variant_doc])* $variant, )*
        }

        impl $name {
            /// In the order of their numbers.
            pub const ALL: &'static [Self] = &[Self::$zero $(, Self::$variant)*];

            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    Self::$zero => $zero_text,
                    $( Self::$variant => $text, )*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::wire::Wire for $name {
            fn read(value: &serde_json::Value, reader: &mut $crate::wire::Reader) -> Self {
                let found = match value {
                    serde_json::Value::String(text) => {
                        Self::ALL.iter().find(|one| one.as_str() == text)
                    }
                    other => other
                        .as_u64()
                        .and_then(|number| Self::ALL.get(usize::try_from(number).ok()?)),
                };
                found.copied().unwrap_or_else(|| {
                    let all: Vec<_> = Self::ALL.iter().map(|one| one.as_str()).collect();
                    let shown: String = value.to_string().chars().take(64).collect();
                    reader.invalid(format!("unsupported value {shown}, must be one of {}", all.join(", ")));
                    Self::default()
                })
            }

            fn write(&self) -> serde_json::Value {
                serde_json::Value::from(self.as_str())
            }

            fn schema() -> $crate::wire::Node {
                let all: Vec<_> = Self::ALL.iter().map(|one| one.as_str()).collect();
                $crate::wire::Node::of("string").describe(&[$($doc),*]).set("enum", all)
            }

            fn is_absent(&self) -> bool {
                *self == Self::default()
            }
        }

        $crate::wire::as_serde!($name);
    )+ };
}

/// For those who read and write through serde; problems become one error.
macro_rules! as_serde {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::wire::Wire::write(self).serialize(serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = serde_json::Value::deserialize(deserializer)?;
                let (read, problems) = $crate::wire::read::<Self>(&value);
                let wrong = problems.iter().find_map(|problem| match &problem.what {
                    $crate::wire::What::Invalid(reason) => Some((problem, reason)),
                    $crate::wire::What::Unknown => None,
                });
                match wrong {
                    None => Ok(read),
                    Some((problem, reason)) => {
                        Err(serde::de::Error::custom(format_args!("{}: {reason}", problem.field)))
                    }
                }
            }
        }
    };
}

pub(crate) use {as_serde, choice, message, oneof, or_default};
