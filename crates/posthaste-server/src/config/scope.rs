//! What a key may do over REST: `server.operators`.

use std::str::FromStr;

use posthaste::Error;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Looks at events, lanes, figures and the record.
    Read,
    /// Publishes events.
    Publish,
    /// Gives commands.
    Operate,
}

impl Scope {
    const ALL: [Self; 3] = [Self::Read, Self::Publish, Self::Operate];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Publish => "publish",
            Self::Operate => "operate",
        }
    }
}

/// A key by its name, and what it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    name: String,
    scopes: Vec<Scope>,
}

/// `NAME`: it may do everything. `NAME:SCOPE+SCOPE`: only that.
impl FromStr for Operator {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, scopes) = match text.rsplit_once(':') {
            Some((name, scopes)) => (name, scopes.split('+').map(scope).collect::<Result<Vec<_>, _>>()?),
            None => (text, Scope::ALL.to_vec()),
        };
        if name.is_empty() {
            return Err(Error::config("a key has a name; the first start's is called \"first\""));
        }
        Ok(Self { name: name.to_owned(), scopes })
    }
}

fn scope(text: &str) -> Result<Scope, Error> {
    Scope::ALL.into_iter().find(|scope| scope.name() == text).ok_or_else(|| {
        Error::config(format!(
            "there is no scope {text:?}; write the name of a key, or NAME:SCOPE with read, publish or operate, like \"grafana:read\""
        ))
    })
}

/// Whether the key with this name may do this. One that nobody names publishes and looks.
pub fn may(operators: &[Operator], name: &str, scope: Scope) -> bool {
    let mut named = operators.iter().filter(|operator| operator.name == name).peekable();
    match named.peek() {
        None => scope != Scope::Operate,
        Some(_) => named.any(|operator| operator.scopes.contains(&scope)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_may_what_its_scopes_say_and_one_that_nobody_names_publishes_and_looks() {
        let operators: Vec<Operator> = ["ops", "grafana:read", "shop:publish", "night:read+operate"]
            .map(|text| text.parse().unwrap())
            .into();
        let may = |name: &str| Scope::ALL.map(|scope| may(&operators, name, scope));
        assert_eq!(may("ops"), [true, true, true]);
        assert_eq!(may("grafana"), [true, false, false]);
        assert_eq!(may("shop"), [false, true, false]);
        assert_eq!(may("night"), [true, false, true]);
        assert_eq!(may("nobody"), [true, true, false]);
    }

    #[test]
    fn what_is_no_scope_is_refused_by_name() {
        for (text, says) in
            [("", "has a name"), (":read", "has a name"), ("ops:write", "\"write\""), ("ops:", "\"\"")]
        {
            let error = text.parse::<Operator>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
