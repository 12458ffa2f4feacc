//! The statements that a relay runs many times per second, as functions in the database.
//!
//! The store sends every statement without a name, so that it works behind a pooler in transaction mode; the
//! server then plans each one before it runs it. For a look that finds nothing, planning takes ten times as
//! long as running. A session keeps the plans of a function's statements, also behind a pooler, so the
//! busiest statements are functions too.
//!
//! * The body of a function is the text of the statement itself. Where the functions are missing, because the
//!   tables are older or the user may not call them, the store sends the text instead.
//! * A function's name ends with a checksum of its definition. Relays of two releases each call their own.
//! * The plans are generic, and sequential scans are off. A kept plan can be older than the table's
//!   statistics, and it must not read a log that has grown since then.

use super::PostgresSql;
use crate::prefix::TablePrefix;

/// A statement that is also a function.
struct Function {
    name: &'static str,
    parameters: &'static [&'static str],
    columns: &'static [&'static str],
    body: &'static str,
}

/// What an event has, and what a page says about the lane in its first row.
const PAGE: &str = "seq bigint, event_id text, source text, event_type text, topic text, key text, subject text, \
    schema_version bigint, content_type text, headers text, occurred_at timestamptz, available_at timestamptz, \
    expires_at timestamptz, created_at timestamptz, payload bytea, payload_bytes bigint, about bigint[]";

/// What a look says, after the columns of a page.
const LOOK: &str = "known bigint, wanted bigint, tick bigint, token text, snap text, low bigint, is_made boolean, \
    is_paged boolean, commits text, ids_moved bigint, micros bigint, is_home boolean, home_since bigint, seen text, own_id text";

const TICK: Function = Function {
    name: "tick",
    parameters: &[
        "bigint", "text", "text", "text[]", "boolean", "text", "bigint", "text", "bigint", "bigint", "text",
        "bigint",
    ],
    columns: &[PAGE, LOOK],
    body: include_str!("tick.sql"),
};

const WINDOW_PAGE: Function = Function {
    name: "window_page",
    parameters: &[
        "text", "bigint", "text", "bigint", "text", "bigint", "text", "text", "text", "bigint", "bigint",
        "bigint", "text", "text",
    ],
    columns: &[PAGE],
    body: include_str!("window_page.sql"),
};

const WINDOW_BEGIN: Function = Function {
    name: "window_begin",
    parameters: &[
        "text", "bigint", "text", "bigint", "text", "bigint", "text", "text", "text", "bigint", "bigint",
        "bigint", "text", "text", "text[]",
    ],
    columns: &[PAGE],
    body: include_str!("window_begin.sql"),
};

const LANE_SETTLE: Function = Function {
    name: "lane_settle",
    parameters: &[
        "text", "bigint", "text", "bigint", "bigint", "bigint", "bigint", "bigint", "bigint", "bigint[]",
        "text[]", "boolean", "boolean", "boolean", "text", "bigint", "bigint",
    ],
    columns: &["state text, now timestamptz, is_wanted boolean, own_id text"],
    body: include_str!("lane_settle.sql"),
};

const FUNCTIONS: [&Function; 4] = [&TICK, &WINDOW_PAGE, &WINDOW_BEGIN, &LANE_SETTLE];

impl PostgresSql {
    /// The statements for tables with this prefix, with calls in place of those that are functions.
    pub fn calling(prefix: &TablePrefix) -> Self {
        Self {
            tick: TICK.call(prefix),
            window_page: WINDOW_PAGE.call(prefix),
            window_begin: WINDOW_BEGIN.call(prefix),
            lane_settle: LANE_SETTLE.call(prefix),
            ..Self::new(prefix)
        }
    }
}

/// Asks whether all functions exist and this user may call them.
pub fn postgres_functions_exist(prefix: &TablePrefix) -> String {
    let signatures = FUNCTIONS.map(|function| format!("('{}')", function.signature(prefix)));
    format!(
        "SELECT coalesce(bool_and(has_function_privilege(to_regprocedure(f)::oid, 'EXECUTE')), false) \
           AND count(to_regprocedure(f)) = {} FROM (VALUES {}) AS v (f)",
        FUNCTIONS.len(),
        signatures.join(", ")
    )
}

/// The statements that make the functions, or make them again.
pub fn postgres_functions(prefix: &TablePrefix) -> String {
    FUNCTIONS.map(|function| function.definition(prefix)).concat()
}

impl Function {
    fn name(&self, prefix: &TablePrefix) -> String {
        let checksum = fnv([self.body, SETTINGS].iter().chain(self.columns).chain(self.parameters).copied());
        format!("{prefix}{}_{:08x}", self.name, checksum as u32)
    }

    fn signature(&self, prefix: &TablePrefix) -> String {
        format!("{}({})", self.name(prefix), self.parameters.join(", "))
    }

    fn call(&self, prefix: &TablePrefix) -> String {
        let values: Vec<String> = (1..=self.parameters.len()).map(|number| format!("${number}")).collect();
        format!("SELECT * FROM {}({})", self.name(prefix), values.join(", "))
    }

    fn definition(&self, prefix: &TablePrefix) -> String {
        format!(
            "CREATE OR REPLACE FUNCTION {} RETURNS TABLE ({})\nLANGUAGE plpgsql {SETTINGS} AS $function$\n\
             #variable_conflict use_column\nBEGIN RETURN QUERY\n{};\nEND $function$;\n",
            self.signature(prefix),
            self.columns.join(", "),
            prefix.apply(self.body.trim_end())
        )
    }
}

/// What holds while a function runs. A statement outside a transaction has no other limit on waiting for a
/// lock: behind a pooler a session's own settings would stay with a stranger.
const SETTINGS: &str =
    "SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '5s'";

/// FNV-1a over all the texts: a name must change with the definition, and nothing here is secret.
fn fnv<'a>(texts: impl Iterator<Item = &'a str>) -> u64 {
    texts.flat_map(|text| text.bytes().chain([0])).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_changes_with_the_definition_and_fits_into_an_identifier() {
        let longest: TablePrefix = "p".repeat(40).parse().unwrap();
        let names: Vec<String> = FUNCTIONS.iter().map(|function| function.name(&longest)).collect();
        assert!(names.iter().all(|name| name.len() <= 63), "{names:?}");
        let other = Function { body: "SELECT 1", ..TICK };
        assert_ne!(other.name(&longest), names[0]);
    }

    #[test]
    fn every_parameter_of_a_statement_is_one_of_its_function() {
        for function in FUNCTIONS {
            let count = function.parameters.len();
            assert!(function.body.contains(&format!("${count}")), "{}", function.name);
            assert!(!function.body.contains(&format!("${}", count + 1)), "{}", function.name);
        }
    }
}
