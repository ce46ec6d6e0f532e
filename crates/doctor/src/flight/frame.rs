//! A sample, encoded as its changes since the previous one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::template::Template;

/// The largest size of all files of a sample, far above that of a machine with thousands of CPUs.
pub(super) const MOST_BYTES: usize = 16 << 20;
/// The largest number of files in a sample.
const MOST_FILES: usize = 1 << 16;

/// The kind of a failure or stall.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// Tasks waited for memory.
    Stall,
    /// A page allocation failed.
    Failure,
    /// The OOM killer ran.
    Oom,
}

impl EventKind {
    /// Returns its name, which is also used in file names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stall => "stall",
            Self::Failure => "failure",
            Self::Oom => "oom",
        }
    }
}

/// A failure or a stall.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Its kind.
    pub kind: EventKind,
    /// The line of the log, or the figures.
    pub text: String,
}

/// A file's text, or the reason why it could not be read.
pub type FileText = Result<String, String>;

/// The data read at one moment. Files that are missing here were not read again.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Milliseconds since 1970.
    pub wall_ms: u64,
    /// Files by the kernel's name.
    pub files: Vec<(String, FileText)>,
    /// Lines of the kernel's log that were kept.
    pub log: String,
    /// The events since the previous sample.
    pub events: Vec<Event>,
}

/// A frame in its stored form.
#[derive(Debug, Serialize, Deserialize)]
struct Packed {
    /// It can be read without earlier frames.
    key: bool,
    /// Milliseconds since the previous frame; since 1970 in a key frame.
    ms: i64,
    /// The names of files that are new.
    names: Vec<String>,
    /// Files with a new text: their number, and the text or the reason why it is missing.
    texts: Vec<(u32, FileText)>,
    /// The number of unchanged numbers before each that changed, across all files, and the changes. The two are
    /// stored separately, because gaps repeat from frame to frame.
    gaps: Vec<u32>,
    changes: Vec<i64>,
    log: String,
    events: Vec<Event>,
}

/// The state that frames change, equal in the writer and in the reader.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    names: Vec<String>,
    files: Vec<File>,
    bytes: usize,
    pub(super) wall_ms: u64,
}

#[derive(Clone, Debug, Default)]
struct File {
    template: Template,
    numbers: Vec<u64>,
    /// The reason why there is no text.
    why: Option<String>,
    bytes: usize,
}

impl File {
    fn new(name: &str, text: &FileText) -> Self {
        match text {
            Ok(text) => {
                // This file pads its names to columns, others pad their numbers.
                let (template, numbers) = Template::of(text, name != "/proc/zoneinfo");
                Self { template, numbers, why: None, bytes: text.len() }
            }
            Err(why) => Self { why: Some(why.clone()), ..Self::default() },
        }
    }

    fn text(&self) -> FileText {
        match &self.why {
            Some(why) => Err(why.clone()),
            None => Ok(self.template.text(&self.numbers)),
        }
    }
}

impl State {
    /// Packs a frame and applies it to the state. A key frame contains all files, including those that were read
    /// before.
    pub(super) fn pack(&mut self, frame: &Frame, key: bool) -> Vec<u8> {
        let mut packed = self.take(frame);
        if key {
            packed.key = true;
            packed.ms = frame.wall_ms.cast_signed();
            packed.names = self.names.clone();
            packed.texts = (0..).zip(self.files.iter().map(File::text)).collect();
            (packed.gaps, packed.changes) = (Vec::new(), Vec::new());
        }
        postcard::to_allocvec(&packed).expect("a vector takes any bytes")
    }

    fn take(&mut self, frame: &Frame) -> Packed {
        let mut texts = Vec::new();
        let known = self.names.len();
        let mut changed: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (name, text) in &frame.files {
            let file = self.names.iter().position(|own| own == name).unwrap_or_else(|| {
                self.names.push(name.clone());
                self.files.push(File::default());
                self.files.len() - 1
            });
            let own = &self.files[file];
            let numbers = text.as_ref().ok().filter(|_| file < known && own.why.is_none());
            if let Some(numbers) = numbers.and_then(|text| own.template.numbers(text)) {
                changed.insert(file, numbers);
            } else if file >= known || *text != own.text() {
                self.files[file] = File::new(name, text);
                texts.push((u32::try_from(file).unwrap_or(u32::MAX), text.clone()));
            }
        }
        let (mut gaps, mut changes, mut gap) = (Vec::new(), Vec::new(), 0);
        for (at, file) in self.files.iter_mut().enumerate() {
            let Some(numbers) = changed.remove(&at) else {
                gap += u32::try_from(file.numbers.len()).unwrap_or(u32::MAX);
                continue;
            };
            for (own, number) in file.numbers.iter_mut().zip(numbers) {
                if *own == number {
                    gap += 1;
                } else {
                    gaps.push(std::mem::take(&mut gap));
                    changes.push(number.wrapping_sub(*own).cast_signed());
                    *own = number;
                }
            }
        }
        let ms = frame.wall_ms.wrapping_sub(self.wall_ms).cast_signed();
        self.wall_ms = frame.wall_ms;
        let names = self.names[known..].to_vec();
        let (log, events) = (frame.log.clone(), frame.events.clone());
        Packed { key: false, ms, names, texts, gaps, changes, log, events }
    }

    /// Applies a packed frame. Returns its lines of the log and its events; an error describes the damage.
    pub(super) fn unpack(&mut self, bytes: &[u8]) -> Result<(String, Vec<Event>), &'static str> {
        let packed: Packed = postcard::from_bytes(bytes).map_err(|_| "no sample in its format")?;
        if packed.key {
            *self = Self::default();
        }
        self.wall_ms = self.wall_ms.wrapping_add_signed(packed.ms);
        self.names.extend(packed.names);
        if self.names.len() > MOST_FILES {
            return Err("more than 65536 files");
        }
        self.files.resize_with(self.names.len(), File::default);
        for (file, text) in packed.texts {
            let name = self.names.get(file as usize).ok_or("a file without a name")?;
            let own = &mut self.files[file as usize];
            let new = File::new(name, &text);
            self.bytes = self.bytes - own.bytes + new.bytes;
            if self.bytes > MOST_BYTES {
                return Err("files of more than 16 MiB");
            }
            *own = new;
        }
        if packed.gaps.len() != packed.changes.len() {
            return Err("changes without a place");
        }
        let mut numbers = self.files.iter_mut().flat_map(|file| &mut file.numbers);
        for (gap, change) in packed.gaps.into_iter().zip(packed.changes) {
            let number = numbers.nth(gap as usize).ok_or("a change of no number")?;
            *number = number.wrapping_add_signed(change);
        }
        Ok((packed.log, packed.events))
    }

    /// Returns the files by name.
    pub(super) fn files(&self) -> BTreeMap<String, FileText> {
        self.names.iter().cloned().zip(self.files.iter().map(File::text)).collect()
    }

    /// Returns one file.
    pub(super) fn file(&self, name: &str) -> Option<FileText> {
        let at = self.names.iter().position(|own| own == name)?;
        Some(self.files[at].text())
    }
}
