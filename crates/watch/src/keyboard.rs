//! What the user does at the terminal, read on a thread of its own.
//!
//! The reader of crossterm 0.29 reads without end from a terminal that is gone. So it is asked only where there is
//! something to read and the terminal still there, and never by the thread that looks whether to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How often a change of the terminal's size is looked for, which may wake another thread.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// What came from the terminal.
pub(crate) enum Input {
    Event(Event),
    /// Nothing yet.
    None,
    /// The terminal is gone.
    Gone,
}

/// The keyboard, and changes of the terminal's size. Reading ends when it is dropped.
pub(crate) struct Keyboard {
    events: Receiver<io::Result<Event>>,
    ended: Arc<AtomicBool>,
}

impl Keyboard {
    pub(crate) fn listen() -> Self {
        let (sender, events) = mpsc::channel();
        let ended = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ended);
        thread::spawn(move || forward(&sender, &until));
        Self { events, ended }
    }

    /// Waits for the next event.
    pub(crate) fn next(&self, wait: Duration) -> io::Result<Input> {
        match self.events.recv_timeout(wait) {
            Ok(event) => Ok(Input::Event(event?)),
            Err(RecvTimeoutError::Timeout) => Ok(Input::None),
            Err(RecvTimeoutError::Disconnected) => Ok(Input::Gone),
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Sends events until the terminal is gone or nobody wants them.
fn forward(events: &Sender<io::Result<Event>>, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) && is_there() {
        let event = match event::poll(Duration::ZERO) {
            Ok(false) => continue,
            Ok(true) => event::read(),
            Err(error) => Err(error),
        };
        if events.send(event).is_err() {
            return;
        }
    }
}

/// Waits for something to read, and tells whether the terminal is there.
fn is_there() -> bool {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut fds, Some(&LOOK)) {
        Ok(_) | Err(Errno::INTR) => {
            !fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
        }
        Err(_) => false,
    }
}
