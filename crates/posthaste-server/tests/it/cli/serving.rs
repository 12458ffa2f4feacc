//! The binary as a server.

use std::io::{BufRead, BufReader};

use crate::cli::folder::{Folder, Running};

/// A server in this folder, and its address.
pub(crate) fn serve(folder: &Folder) -> (Running, String) {
    let mut running = Running(folder.command(&["serve", "--listen", "127.0.0.1:0"]).spawn().unwrap());
    let mut lines = BufReader::new(running.0.stderr.take().unwrap()).lines();
    let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
        let (_, address) = line.split_once("listening  http://")?;
        Some(address.trim().to_owned())
    });
    // Reads the log to its end, so that the server never waits for a full pipe.
    std::thread::spawn(move || lines.for_each(drop));
    (running, address.expect("it says where it listens"))
}
