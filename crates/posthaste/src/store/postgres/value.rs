//! Values with their types: sent together with a statement's text they need neither a named statement, which would not be
//! found again behind a pooler in transaction mode, nor a round trip that asks for the types.

use std::error::Error;

use posthaste_core::time::Timestamp;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};

/// A value and its type.
pub(super) type Arg<'a> = (&'a (dyn ToSql + Sync), Type);

/// The values of a statement.
macro_rules! args {
    ($($value:expr),* $(,)?) => { [$($crate::store::postgres::value::arg(&$value)),*] };
}
pub(super) use args;

/// A value with the type that its Rust type has in the database.
pub(super) fn arg<T: Typed>(value: &T) -> Arg<'_> {
    (value, T::TYPE)
}

/// What has a type in the database.
pub(super) trait Typed: ToSql + Sync {
    const TYPE: Type;
}

/// What can stand in an array.
pub(super) trait Element: ToSql + Sync {
    const ARRAY: Type;
}

macro_rules! typed {
    ($($rust:ty => $one:ident, $many:ident;)*) => {$(
        impl Typed for $rust {
            const TYPE: Type = Type::$one;
        }
        impl Element for $rust {
            const ARRAY: Type = Type::$many;
        }
    )*};
}

typed! {
    bool => BOOL, BOOL_ARRAY;
    i32 => INT4, INT4_ARRAY;
    i64 => INT8, INT8_ARRAY;
    String => TEXT, TEXT_ARRAY;
    &str => TEXT, TEXT_ARRAY;
    Vec<u8> => BYTEA, BYTEA_ARRAY;
    &[u8] => BYTEA, BYTEA_ARRAY;
    Stamp => TIMESTAMPTZ, TIMESTAMPTZ_ARRAY;
}

impl<T: Typed> Typed for Option<T> {
    const TYPE: Type = T::TYPE;
}

impl<T: Element> Element for Option<T> {
    const ARRAY: Type = T::ARRAY;
}

impl<T: Element> Typed for Vec<T> {
    const TYPE: Type = T::ARRAY;
}

/// Microseconds between 1970 and 2000, where the database begins to count.
const TO_2000: i64 = 946_684_800_000_000;

/// A time as the database sends it: any of its values, also infinity, without a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(pub(super) Timestamp);

impl ToSql for Stamp {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        // Beyond what the database takes is as good as at its end.
        let micros = self.0.as_micros().saturating_sub(TO_2000).clamp(MICROS_MIN, MICROS_MAX);
        micros.to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TIMESTAMPTZ
    }

    tokio_postgres::types::to_sql_checked!();
}

/// The years 4000 before and 200,000 after: inside what the database takes.
const MICROS_MIN: i64 = -189_000_000_000_000_000;
const MICROS_MAX: i64 = 6_248_000_000_000_000_000;

impl<'a> FromSql<'a> for Stamp {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(Timestamp::from_micros(i64::from_sql(kind, raw)?.saturating_add(TO_2000))))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TIMESTAMPTZ
    }
}
