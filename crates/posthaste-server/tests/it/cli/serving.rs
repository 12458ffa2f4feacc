//! The binary as a server.

use std::io::{BufRead, BufReader};

use crate::cli::folder::{Folder, Running};

/// A server in this folder, and its address.
pub(crate) fn serve(folder: &Folder) -> (Running, String) {
    let mut running = Running(folder.command(&["serve", "--listen", "127.0.0.1:0"]).spawn().unwrap());
    let lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    let address = lines.map_while(Result::ok).find_map(|line| {
        let (_, address) = line.split_once("http://")?;
        Some(address.trim().to_owned())
    });
    (running, address.expect("it says where it listens"))
}
