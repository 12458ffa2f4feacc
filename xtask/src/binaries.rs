//! The test binaries that cargo built, and how each of them is run without cargo.
//!
//! Cargo says only the names of tests that fail, not the binary of each. The check must know it, to run that test again
//! by itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_testservers::{Doing as _, Error, Result};
use serde_json::Value;

/// One test binary.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestBinary {
    /// `PACKAGE TARGET`, for people.
    pub(crate) name: String,
    package: String,
    /// The package's folder, in which cargo runs its tests.
    folder: PathBuf,
    executable: PathBuf,
}

/// Reads the answer of `cargo test --no-run --message-format json`.
pub(crate) fn test_binaries(messages: &str) -> Result<Vec<TestBinary>> {
    let mut binaries = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).map_err(Error::failed)?;
        binaries.extend(read_artifact(&message));
    }
    if binaries.is_empty() {
        return Err(Error::failed("cargo built no test binary"));
    }
    Ok(binaries)
}

fn read_artifact(message: &Value) -> Option<TestBinary> {
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let executable = message["executable"].as_str().filter(|_| is_test)?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let package = folder.file_name()?.to_str()?.to_owned();
    let target = message["target"]["name"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    Some(TestBinary {
        name: format!("{package} {}", if kind == "test" { target } else { kind }),
        package,
        folder: folder.to_owned(),
        executable: executable.into(),
    })
}

impl TestBinary {
    /// The command that runs it as cargo would. `libraries` is the folder of the compiler's own libraries, which the
    /// tests of a procedural macro link to.
    pub(crate) fn command(&self, libraries: &str) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder).env("CARGO_PKG_NAME", &self.package);
        command.env("LD_LIBRARY_PATH", libraries);
        command
    }
}

/// Asks the compiler where its libraries are.
pub(crate) fn compiler_libraries() -> Result<String> {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output().doing("run rustc")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_binaries_are_read_with_their_package_and_folder() {
        let artifact = |kind: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/some/Cargo.toml","target":{{"kind":["{kind}"],"name":"it"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let messages = [
            artifact("lib", false, "null"),
            artifact("lib", true, r#""/t/some-1""#),
            artifact("test", true, r#""/t/it-1""#),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let binaries = test_binaries(&messages.join("\n")).unwrap();
        let names: Vec<&str> = binaries.iter().map(|binary| binary.name.as_str()).collect();
        assert_eq!(names, ["some lib", "some it"]);
        assert_eq!(binaries[1].executable, Path::new("/t/it-1"));
        assert_eq!(binaries[1].folder, Path::new("/w/crates/some"));
    }

    #[test]
    fn a_build_without_a_test_binary_is_an_error() {
        assert!(test_binaries("").is_err());
    }
}
