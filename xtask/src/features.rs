//! Which features there are, from cargo itself, and the checks that show each of them compiles alone.

use serde_json::Value;

use crate::error::{Error, Result};

/// One `cargo check` of one crate with one choice of features.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FeatureCheck {
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
}

/// Every crate of the workspace with none of its features, each alone, and all; read from `cargo metadata`'s answer.
pub(crate) fn feature_checks(metadata: &str) -> Result<Vec<FeatureCheck>> {
    let metadata: Value = serde_json::from_str(metadata).map_err(Error::failed)?;
    let packages =
        metadata["packages"].as_array().ok_or_else(|| Error::failed("cargo metadata names no packages"))?;
    Ok(packages.iter().flat_map(checks_of).collect())
}

fn checks_of(package: &Value) -> Vec<FeatureCheck> {
    let name = package["name"].as_str().unwrap_or_default();
    let check = |what: &str, flags: &[&str]| FeatureCheck {
        name: format!("check {name} {what}"),
        arguments: [["check", "--package", name].as_slice(), flags]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect(),
    };
    let features: Vec<&String> =
        package["features"].as_object().into_iter().flat_map(|map| map.keys()).collect();
    let mut checks = vec![check("without features", &["--no-default-features"])];
    if features.is_empty() {
        return checks;
    }
    let alone = features.iter().map(|feature| {
        check(&format!("with {feature}"), &["--no-default-features", "--features", feature.as_str()])
    });
    checks.extend(alone);
    checks.push(check("with all features", &["--all-features"]));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_checked_alone_between_none_and_all() {
        let metadata = r#"{"packages": [
            {"name": "plain", "features": {}},
            {"name": "rich", "features": {"default": ["a"], "a": []}}
        ]}"#;
        let checks = feature_checks(metadata).unwrap();
        let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "check plain without features",
                "check rich without features",
                "check rich with a",
                "check rich with default",
                "check rich with all features"
            ]
        );
        assert_eq!(
            checks[2].arguments,
            ["check", "--package", "rich", "--no-default-features", "--features", "a"]
        );
    }

    #[test]
    fn an_answer_without_packages_is_an_error() {
        assert!(feature_checks("{}").is_err());
        assert!(feature_checks("no json").is_err());
    }
}
