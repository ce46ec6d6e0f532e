//! Reads the ring buffers into files, a thread for each CPU.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};

use crate::error::Error;
use crate::tracefs::Tracefs;

/// How long a thread waits for its buffer to fill, before it reads what there is.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The pages that a pipe between the buffer and the file holds.
const PIPE_PAGES: usize = 64;

/// What the threads share.
#[derive(Default, Debug)]
pub(crate) struct Shared {
    /// Tracing is off: what is left is read, then threads end.
    pub(crate) ending: AtomicBool,
    /// Some thread failed.
    pub(crate) failed: AtomicBool,
    /// Bytes written.
    pub(crate) bytes: AtomicU64,
}

/// A thread that reads a CPU's buffer.
#[derive(Debug)]
pub(crate) struct Drain {
    thread: JoinHandle<Result<(), Error>>,
}

/// Returns the file of a CPU's pages in a folder.
pub(crate) fn file_of(folder: &Path, cpu: u32) -> PathBuf {
    folder.join(format!("cpu{cpu}.raw"))
}

impl Drain {
    pub(crate) fn start(
        tracefs: &Tracefs,
        cpu: u32,
        folder: &Path,
        page_bytes: usize,
        shared: &Arc<Shared>,
    ) -> Result<Self, Error> {
        let from = tracefs.pipe(cpu);
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let mut options = File::options();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
        let pipe = options.read(true).open(&from).map_err(Error::io(&from))?;
        let to = file_of(folder, cpu);
        let file = File::create_new(&to).map_err(Error::io(&to))?;
        let shared = Arc::clone(shared);
        let thread = std::thread::spawn(move || {
            let done = drain(pipe, &from, file, &to, page_bytes, &shared);
            if done.is_err() {
                shared.failed.store(true, Relaxed);
            }
            done
        });
        Ok(Self { thread })
    }

    /// Waits for the thread's end.
    pub(crate) fn join(self) -> Result<(), Error> {
        match self.thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn drain(
    mut pages: File,
    from: &Path,
    mut file: File,
    to: &Path,
    page_bytes: usize,
    shared: &Shared,
) -> Result<(), Error> {
    let (out, into) = rustix::pipe::pipe().map_err(|e| Error::io(from)(e.into()))?;
    let mut room = page_bytes * PIPE_PAGES;
    // A smaller pipe does as well, only slower.
    if rustix::pipe::fcntl_setpipe_size(&into, room).is_err() {
        room = page_bytes;
    }
    loop {
        // Looked at before the pages, so that what comes in between is read in the next round.
        let last = shared.ending.load(Relaxed);
        while let Some(bytes) = splice_in(&pages, &into, room).map_err(Error::io(from))? {
            splice_out(&out, &file, bytes).map_err(Error::io(to))?;
            shared.bytes.fetch_add(bytes as u64, Relaxed);
        }
        if last {
            return rest(&mut pages, from, &mut file, to, page_bytes, shared);
        }
        let mut fds = [PollFd::new(&pages, PollFlags::IN)];
        match poll(&mut fds, Some(&WAIT)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Error::io(from)(error.into())),
        }
        if shared.failed.load(Relaxed) {
            return Ok(());
        }
    }
}

/// Moves whole pages into a pipe; returns their bytes, or `None` if there are none at the moment. Splicing never takes
/// the page that the kernel is still filling, so that none is stored half empty.
fn splice_in(pages: &File, pipe: &OwnedFd, room: usize) -> std::io::Result<Option<usize>> {
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    loop {
        match splice(pages, None, pipe, None, room, flags) {
            Ok(0) | Err(Errno::AGAIN) => return Ok(None),
            Ok(bytes) => return Ok(Some(bytes)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn splice_out(pipe: &OwnedFd, file: &File, mut bytes: usize) -> std::io::Result<()> {
    while bytes > 0 {
        match splice(pipe, None, file, None, bytes, SpliceFlags::MOVE) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(done) => bytes -= done,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads the page that was not full when tracing was switched off.
fn rest(
    pages: &mut File,
    from: &Path,
    file: &mut File,
    to: &Path,
    page_bytes: usize,
    shared: &Shared,
) -> Result<(), Error> {
    let mut page = vec![0; page_bytes];
    loop {
        match pages.read(&mut page) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                page[n..].fill(0);
                file.write_all(&page).map_err(Error::io(to))?;
                shared.bytes.fetch_add(page_bytes as u64, Relaxed);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io(from)(error)),
        }
    }
}
