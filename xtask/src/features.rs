//! Which features there are, from cargo itself, and the checks that show each of them compiles alone.

use serde_json::Value;

use posthaste_testservers::{Error, Result};

/// One `cargo check` of one crate with one choice of features.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FeatureCheck {
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
}

/// Chooses the checks from the answer of `cargo metadata`: every crate with features, once without any and once with each.
///
/// Three rules leave out what another check covers. A feature that does nothing but switch on features of
/// other crates of the workspace is checked in those crates. A feature that such a crate has only for a
/// dependant's feature of its own is checked through the dependant. A feature that reaches into an
/// optional crate of the workspace (`crate?/feature`) is checked together with the feature that switches
/// this crate on, which then has no check of its own. All features at once are clippy's part.
pub(crate) fn feature_checks(metadata: &str) -> Result<Vec<FeatureCheck>> {
    let metadata: Value = serde_json::from_str(metadata).map_err(Error::failed)?;
    let packages =
        metadata["packages"].as_array().ok_or_else(|| Error::failed("cargo metadata names no packages"))?;
    let features: Vec<Feature<'_>> = packages.iter().flat_map(features_of).collect();
    let members: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut checks = Vec::new();
    for member in &members {
        let own: Vec<&Feature<'_>> = features.iter().filter(|feature| feature.package == *member).collect();
        if own.is_empty() {
            continue;
        }
        checks.push(check(member, &[]));
        let needed = own.iter().filter(|feature| {
            feature.name != "default"
                && !feature.only_forwards(&members)
                && !feature.is_checked_through_another(&features, &members)
        });
        let choices: Vec<_> = needed.map(|feature| feature.with_optional_crates(&own)).collect();
        let is_beside = |name: &str| choices.iter().any(|features| features[1..].contains(&name));
        let alone = choices.iter().filter(|features| !is_beside(features[0]));
        checks.extend(alone.map(|features| check(member, features)));
    }
    Ok(checks)
}

/// A feature and what it switches on.
struct Feature<'a> {
    package: &'a str,
    name: &'a str,
    switches: Vec<&'a str>,
}

impl<'a> Feature<'a> {
    /// The features of other crates of the workspace that it switches on, as (crate, feature).
    fn forwards(&self, members: &[&str]) -> Vec<(&'a str, &'a str)> {
        let named = self.switches.iter().filter_map(|switch| switch.split_once('/'));
        let named = named.map(|(package, feature)| (package.trim_end_matches('?'), feature));
        named.filter(|(package, _)| members.contains(package)).collect()
    }

    /// The optional crates that it reaches into.
    fn optional_crates(&self) -> impl Iterator<Item = &'a str> {
        self.switches.iter().filter_map(|switch| Some(switch.split_once("?/")?.0))
    }

    /// Its name, then the features among `own` that switch on the optional crates it reaches into.
    fn with_optional_crates(&self, own: &[&Feature<'a>]) -> Vec<&'a str> {
        let switch = |optional| {
            let dependency = format!("dep:{optional}");
            own.iter().find(|feature| feature.switches.contains(&dependency.as_str())).map(|found| found.name)
        };
        std::iter::once(self.name).chain(self.optional_crates().filter_map(switch)).collect()
    }

    fn only_forwards(&self, members: &[&str]) -> bool {
        let is_forwarding = self.forwards(members).len() == self.switches.len();
        !self.switches.is_empty() && is_forwarding && self.optional_crates().next().is_none()
    }

    fn is_checked_through_another(&self, all: &[Feature<'_>], members: &[&str]) -> bool {
        all.iter().any(|other| {
            !other.only_forwards(members) && other.forwards(members).contains(&(self.package, self.name))
        })
    }
}

fn features_of<'a>(package: &'a Value) -> Vec<Feature<'a>> {
    let Some((of, features)) = package["name"].as_str().zip(package["features"].as_object()) else {
        return Vec::new();
    };
    let switched_on = |by: &'a Value| by.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    features.iter().map(|(name, by)| Feature { package: of, name, switches: switched_on(by) }).collect()
}

fn check(package: &str, features: &[&str]) -> FeatureCheck {
    let mut arguments = ["check", "--package", package, "--no-default-features"].map(str::to_owned).to_vec();
    if features.is_empty() {
        return FeatureCheck { name: format!("check {package} without features"), arguments };
    }
    arguments.extend(["--features".to_owned(), features.join(",")]);
    FeatureCheck { name: format!("check {package} with {}", features.join(" and ")), arguments }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_checked_once_where_its_code_is() {
        let metadata = r#"{"packages": [
            {"name": "plain", "features": {}},
            {"name": "low", "features": {"driver": ["dep:driver"]}},
            {"name": "middle", "features": {"default": ["a"], "a": ["dep:low"], "driver": ["low/driver"], "broker": ["dep:broker"]}},
            {"name": "high", "features": {"broker": ["middle/broker", "dep:broker"]}},
            {"name": "tool", "features": {"broker": ["middle/broker", "dep:broker"]}},
            {"name": "top", "features": {"tool": ["dep:tool"], "broker": ["middle/broker", "tool?/broker"]}}
        ]}"#;
        let checks = feature_checks(metadata).unwrap();
        let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "check low without features",
                "check low with driver",
                "check middle without features",
                "check middle with a",
                "check high without features",
                "check high with broker",
                "check tool without features",
                "check top without features",
                "check top with broker and tool"
            ]
        );
        assert_eq!(
            checks[1].arguments,
            ["check", "--package", "low", "--no-default-features", "--features", "driver"]
        );
        assert_eq!(checks[8].arguments.last().map(String::as_str), Some("broker,tool"));
    }

    #[test]
    fn an_answer_without_packages_is_an_error() {
        assert!(feature_checks("{}").is_err());
        assert!(feature_checks("no json").is_err());
    }
}
