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
/// Two rules leave out what another check covers. A feature that does nothing but switch on features of other crates of
/// the workspace is checked in those crates. A feature that such a crate has only for a dependant's feature of its own
/// is checked through the dependant. All features at once are clippy's part.
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
        checks.push(check(member, None));
        let alone = own.into_iter().filter(|feature| {
            feature.name != "default"
                && !feature.only_forwards(&members)
                && !feature.is_checked_through_another(&features, &members)
        });
        checks.extend(alone.map(|feature| check(member, Some(feature.name))));
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
        named.filter(|(package, _)| members.contains(package)).collect()
    }

    fn only_forwards(&self, members: &[&str]) -> bool {
        !self.switches.is_empty() && self.forwards(members).len() == self.switches.len()
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

fn check(package: &str, feature: Option<&str>) -> FeatureCheck {
    let mut arguments = ["check", "--package", package, "--no-default-features"].map(str::to_owned).to_vec();
    if let Some(feature) = feature {
        arguments.extend(["--features".to_owned(), feature.to_owned()]);
    }
    let with = feature.map_or_else(|| "without features".to_owned(), |feature| format!("with {feature}"));
    FeatureCheck { name: format!("check {package} {with}"), arguments }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_checked_once_where_its_code_is() {
        let metadata = r#"{"packages": [
            {"name": "plain", "features": {}},
            {"name": "low", "features": {"driver": ["dep:driver"]}},
            {"name": "middle", "features": {"default": ["a"], "a": [], "driver": ["low/driver"], "broker": ["dep:broker"]}},
            {"name": "high", "features": {"broker": ["middle/broker", "dep:broker"]}}
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
                "check high with broker"
            ]
        );
        assert_eq!(
            checks[1].arguments,
            ["check", "--package", "low", "--no-default-features", "--features", "driver"]
        );
    }

    #[test]
    fn an_answer_without_packages_is_an_error() {
        assert!(feature_checks("{}").is_err());
        assert!(feature_checks("no json").is_err());
    }
}
