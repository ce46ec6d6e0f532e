//! Reads the ring buffers into files, a thread for each CPU.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};

use crate::error::{Error, part, read};
use crate::tracefs::Tracefs;

/// How long a thread waits for its buffer to fill, before it reads what there is.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How often a page that is not full is stored too: what a killed recorder loses is not older.
const STORE_EVERY: Duration = Duration::from_secs(1);

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
    /// The segment to write to; those before it are complete where every thread has reached it.
    pub(crate) segment: AtomicU64,
}

/// Where a thread is: its segment, and the statistics of its buffer at the moment when it began that segment.
type Reached = Arc<Mutex<(u64, String)>>;

/// A thread that reads a CPU's buffer.
#[derive(Debug)]
pub(crate) struct Drain {
    cpu: u32,
    thread: JoinHandle<Result<(), Error>>,
    reached: Reached,
}

/// A folder of pages, and its segment where there is more than one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Spool {
    /// The folder of all segments.
    pub(crate) folder: PathBuf,
    /// Whether there are segments.
    pub(crate) segmented: bool,
}

impl Spool {
    /// Returns the folder of a segment.
    pub(crate) fn segment(&self, number: u64) -> PathBuf {
        if self.segmented { self.folder.join(format!("{number:06}")) } else { self.folder.clone() }
    }
}

/// Returns the file of a CPU's pages in a folder.
pub(crate) fn file_of(folder: &Path, cpu: u32) -> PathBuf {
    folder.join(format!("cpu{cpu}.raw"))
}

impl Drain {
    pub(crate) fn start(
        tracefs: &Tracefs,
        cpu: u32,
        spool: &Spool,
        page_bytes: usize,
        shared: &Arc<Shared>,
    ) -> Result<Self, Error> {
        let from = tracefs.pipe(cpu);
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let mut options = File::options();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
        let pages = options.read(true).open(&from).map_err(Error::io(&from))?;
        let (to, file) = create(spool, 0, cpu)?;
        let reached = Reached::default();
        let mut reader = Reader {
            pages,
            from,
            file,
            to,
            page_bytes,
            partly_read: false,
            cpu,
            stats: tracefs.stats_file(cpu),
            spool: spool.clone(),
            shared: Arc::clone(shared),
            reached: Arc::clone(&reached),
        };
        let thread = std::thread::spawn(move || {
            let done = reader.run();
            if done.is_err() {
                reader.shared.failed.store(true, Relaxed);
            }
            done
        });
        Ok(Self { cpu, thread, reached })
    }

    /// Returns the CPU, and the statistics of its buffer at the begin of a segment, once the thread has begun it.
    pub(crate) fn stats_at(&self, segment: u64) -> Option<(u32, String)> {
        let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        (reached.0 == segment).then(|| (self.cpu, reached.1.clone()))
    }

    /// Waits for the thread's end.
    pub(crate) fn join(self) -> Result<(), Error> {
        match self.thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn create(spool: &Spool, segment: u64, cpu: u32) -> Result<(PathBuf, File), Error> {
    let to = file_of(&spool.segment(segment), cpu);
    let file = part(&to)?;
    Ok((to, file))
}

/// What a thread works with.
struct Reader {
    pages: File,
    from: PathBuf,
    file: File,
    to: PathBuf,
    page_bytes: usize,
    /// Some events of the first page were read before it was full: older kernels then splice no more.
    partly_read: bool,
    cpu: u32,
    stats: PathBuf,
    spool: Spool,
    shared: Arc<Shared>,
    reached: Reached,
}

impl Reader {
    fn run(&mut self) -> Result<(), Error> {
        let (out, into) = rustix::pipe::pipe().map_err(|e| Error::io(&self.from)(e.into()))?;
        let mut room = self.page_bytes * PIPE_PAGES;
        // A smaller pipe does as well, only slower.
        if rustix::pipe::fcntl_setpipe_size(&into, room).is_err() {
            room = self.page_bytes;
        }
        let mut segment = 0;
        let mut stored = Instant::now();
        loop {
            // Looked at before the pages, so that what comes in between is read in the next round.
            let last = self.shared.ending.load(Relaxed);
            let now = self.shared.segment.load(Relaxed);
            while let Some(bytes) =
                splice_in(&self.pages, &into, room).map_err(Error::io(&self.from))?
            {
                splice_out(&out, &self.file, bytes).map_err(Error::io(&self.to))?;
                self.shared.bytes.fetch_add(bytes as u64, Relaxed);
                self.partly_read = false;
            }
            if last {
                while self.read_page()? {}
                return Ok(());
            }
            if now != segment {
                segment = now;
                self.begin(segment)?;
            }
            if stored.elapsed() >= STORE_EVERY {
                self.partly_read |= self.read_page()?;
                stored = Instant::now();
            }
            let mut fds = [PollFd::new(&self.pages, PollFlags::IN)];
            match poll(&mut fds, Some(&WAIT)) {
                // Enough is there that the page is full: the rest of it.
                Ok(1..) if self.partly_read => drop(self.read_page()?),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Error::io(&self.from)(error.into())),
            }
            if self.shared.failed.load(Relaxed) {
                return Ok(());
            }
        }
    }

    /// Writes what happened until now into the file of the last segment, and begins the next.
    fn begin(&mut self, segment: u64) -> Result<(), Error> {
        self.partly_read |= self.read_page()?;
        (self.to, self.file) = create(&self.spool, segment, self.cpu)?;
        let stats = read(&self.stats)?;
        *self.reached.lock().unwrap_or_else(PoisonError::into_inner) = (segment, stats);
        Ok(())
    }

    /// Reads the events of a page that is not full; returns whether there were any.
    fn read_page(&mut self) -> Result<bool, Error> {
        let mut page = vec![0; self.page_bytes];
        loop {
            match self.pages.read(&mut page) {
                Ok(0) => return Ok(false),
                Ok(n) => {
                    page[n..].fill(0);
                    self.file.write_all(&page).map_err(Error::io(&self.to))?;
                    self.shared.bytes.fetch_add(self.page_bytes as u64, Relaxed);
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(&self.from)(error)),
            }
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
