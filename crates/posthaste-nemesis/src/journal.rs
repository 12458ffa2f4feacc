//! Files that several processes append to; what is written survives a SIGKILL.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use crate::Result;

/// Ends a record. A process can be killed in the middle of a write; what lacks the end was never acknowledged.
const END: &str = " .";

/// Appends whole records.
#[derive(Debug)]
pub(crate) struct Pen(File);

impl Pen {
    pub(crate) fn append_to(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        Ok(Self(file.map_err(|error| format!("cannot open {}: {error}", path.display()))?))
    }

    /// One write, so that records of several processes do not mix; on a line of its own, whatever stands before it.
    pub(crate) fn write(&self, record: &str) -> std::io::Result<()> {
        (&self.0).write_all(format!("\n{record}{END}").as_bytes())
    }
}

/// The records of a file in the order of their writes; none if it was never written.
pub(crate) fn records(path: &Path) -> Result<Vec<String>> {
    let text = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("cannot read {}: {error}", path.display()).into()),
    };
    Ok(text.lines().filter_map(|line| line.strip_suffix(END)).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_was_cut_off_is_no_record_and_spoils_no_other() {
        let path = std::env::temp_dir().join(format!("posthaste-pen-{}", std::process::id()));
        let pen = Pen::append_to(&path).unwrap();
        pen.write("a 1").unwrap();
        (&pen.0).write_all(b"\nb 2").unwrap();
        pen.write("c 3").unwrap();
        let read = records(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap(), ["a 1", "c 3"]);
        assert!(records(&path).unwrap().is_empty());
    }
}
