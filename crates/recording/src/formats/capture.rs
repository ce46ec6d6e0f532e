//! What a capture format is: how its files are recognized and opened, and what a stream of their events says.

use std::collections::BTreeMap;
use std::path::Path;

use crate::input::bytes::Input;
use crate::input::error::Error;
use crate::record::decoding::Decoding;
use crate::record::event::Record;
use crate::record::kernel::KernelVersion;
use crate::record::losses::{Losses, LostByCpu};

/// The events of a capture in the order of its file. After an error the stream ends.
///
/// A format implements this trait in a file of its own and is listed once, in `open/events.rs`.
pub trait Capture: Iterator<Item = Result<Record, Error>> + Send {
    /// Reports whether a file is in the format. `start` is its decompressed beginning, 4096 bytes if it has as many.
    fn recognizes(start: &[u8]) -> bool
    where
        Self: Sized;

    /// Opens a file in the format. `input` is the file from its start; a format with random access opens `path`
    /// itself.
    ///
    /// # Errors
    /// If the file cannot be read, or a header is damaged.
    fn start(path: &Path, input: Input, decoding: Decoding) -> Result<Self, Error>
    where
        Self: Sized;

    /// Returns what the file says of its machine, for a capture without other files.
    ///
    /// # Errors
    /// If the file cannot be read, or a header is damaged.
    fn machine(_path: &Path, _start: &[u8], _decoding: Decoding) -> Result<Machine, Error>
    where
        Self: Sized,
    {
        Ok(Machine::default())
    }

    /// Returns how many bytes were read: of the file as stored, or decompressed if it was decompressed first.
    fn bytes_read(&self) -> u64;

    /// Returns the total that corresponds to [`Capture::bytes_read`], if it is known.
    fn bytes(&self) -> Option<u64>;

    /// Reports whether the events are those of one recording already; else events that say nothing of pages are left out.
    fn is_selected(&self) -> bool {
        false
    }

    /// Returns the names of processes that stand among the events, as far as the file was read.
    fn comms(&self) -> Option<&BTreeMap<u32, String>> {
        None
    }

    /// Returns all losses at once, if the file says so; then the counts below stay 0.
    fn losses(&self) -> Option<&Losses> {
        None
    }

    /// Returns the number of events that the recorder lost, as far as the file was read; 0 if the format does not say.
    /// If the kernel does not say how many, each gap counts as one.
    fn lost(&self) -> u64 {
        0
    }

    /// Returns [`Capture::lost`] by CPU.
    fn lost_by_cpu(&self) -> LostByCpu {
        LostByCpu::new()
    }

    /// Returns, after the last event, the losses beyond [`Capture::lost_by_cpu`], whose positions are unknown.
    fn lost_unplaced(&self) -> LostByCpu {
        LostByCpu::new()
    }
}

/// What a capture says of the machine on which it was made.
#[derive(Default)]
pub struct Machine {
    /// The kernel's version.
    pub kernel: Option<KernelVersion>,
    /// Command names by process id.
    pub comms: BTreeMap<u32, String>,
}

/// [`Capture::start`] of any format.
type Start = fn(&Path, Input, Decoding) -> Result<Box<dyn Capture>, Error>;

/// A capture format, as a value.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    /// [`Capture::recognizes`].
    pub(crate) recognizes: fn(&[u8]) -> bool,
    /// [`Capture::start`].
    pub(crate) start: Start,
    /// [`Capture::machine`].
    pub(crate) machine: fn(&Path, &[u8], Decoding) -> Result<Machine, Error>,
}

impl Format {
    /// Makes the value of a format.
    pub(crate) const fn of<C: Capture + 'static>() -> Self {
        Self {
            recognizes: C::recognizes,
            start: |path, input, decoding| Ok(Box::new(C::start(path, input, decoding)?)),
            machine: C::machine,
        }
    }
}
