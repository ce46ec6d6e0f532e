//! Reports to the host.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::termios::{OptionalActions, tcdrain, tcgetattr, tcsetattr};

use crate::message::Message;

/// The port that the host reads.
const PORT: &str = "/dev/ttyS1";

/// The port, which threads share.
#[derive(Clone)]
pub(super) struct Port(Arc<Mutex<File>>);

impl Port {
    /// Opens the port, so that bytes go through it as they are.
    pub(super) fn open() -> io::Result<Self> {
        let port = File::options().write(true).open(PORT)?;
        let mut settings = tcgetattr(&port)?;
        settings.make_raw();
        tcsetattr(&port, OptionalActions::Now, &settings)?;
        Ok(Self(Arc::new(Mutex::new(port))))
    }

    /// Sends a report. A port that takes nothing cannot be complained about to anybody else.
    pub(super) fn send(&self, message: &Message) {
        match serde_json::to_vec(message) {
            Ok(line) => self.send_line(&line),
            Err(error) => complain(&error.to_string()),
        }
    }

    /// Waits until the host has all: a kernel that powers off leaves what its driver still holds.
    pub(super) fn drain(&self) {
        let port = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = tcdrain(&*port) {
            complain(&format!("{PORT}: {error}"));
        }
    }

    /// Sends a line of JSON.
    pub(super) fn send_line(&self, line: &[u8]) {
        let mut port = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sent =
            port.write_all(&[line.trim_ascii_end(), b"\n"].concat()).and_then(|()| port.flush());
        if let Err(error) = sent {
            complain(&format!("{PORT}: {error}"));
        }
    }
}

/// Writes a line to the console.
pub(super) fn complain(why: &str) {
    // There is nobody to tell if the console is gone.
    let _ = writeln!(io::stderr(), "pageblock-guest: {why}");
}
