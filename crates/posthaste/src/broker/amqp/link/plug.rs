//! A second handle on a connection's socket, to end it from outside.
//!
//! The client reads and writes on a thread of its own, which ends only with the socket. A peer that neither answers nor
//! hangs up would keep both for ever.

use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use super::lock;

/// Ends a connection. Clones end the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Plug(Arc<Mutex<Slot>>);

#[derive(Debug, Default)]
struct Slot {
    socket: Option<TcpStream>,
    is_pulled: bool,
}

impl Plug {
    /// Takes a second handle on this socket.
    pub(super) fn hold(&self, socket: &impl AsFd) -> std::io::Result<()> {
        let socket = TcpStream::from(socket.as_fd().try_clone_to_owned()?);
        let mut slot = lock(&self.0);
        if slot.is_pulled {
            return socket.shutdown(Shutdown::Both);
        }
        slot.socket = Some(socket);
        Ok(())
    }

    /// Ends the connection, now or as soon as it is there.
    pub(super) fn pull(&self) {
        let mut slot = lock(&self.0);
        slot.is_pulled = true;
        if let Some(socket) = slot.socket.take() {
            // An error means that it is over already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Pulls the plug unless it is told not to: for a connection that is not made yet.
pub(super) struct Fuse(pub(super) Option<Plug>);

impl Fuse {
    /// The connection is made.
    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        if let Some(plug) = &self.0 {
            plug.pull();
        }
    }
}
