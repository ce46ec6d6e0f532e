//! The source of the state of frames: this machine, a copied tree, or a recording of `pageblock record`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pageblock::mobility::{Migratetype, Numbering};
use pageblock_files::ScratchFolder;
use pageblock_recording::{
    BuddyInfo, Decoding, Input, KernelVersion, MemInfo, PageTypeInfo, PageUse, Recording, Snapshot,
};

use super::bounds::Room;
use super::frames::{self, Run, Sink, Table, Watch};
use super::kind::{Kind, Rules};
use super::tally::{Sizes, Tally};
use crate::error::Error;
use crate::interfaces::rules;
use crate::proc::iomem;
use crate::proc::page_size::{page_kb, uninitialised, uninitialised_frames};
use crate::proc::tree::{Missing, Tree};
use crate::proc::zoneinfo::{self, Zone};

/// The files of a machine, and the machine that they describe.
pub struct Source {
    /// The tree of files.
    pub tree: Tree,
    /// The zones with memory, in the order of `zoneinfo`.
    pub zones: Vec<Zone>,
    /// The kernel.
    pub version: Option<KernelVersion>,
    /// The size of a page in kB.
    pub page_kb: u64,
    /// The sizes of blocks.
    pub sizes: Sizes,
    /// The kinds of pages that this kernel's compaction moves.
    pub rules: Rules,
    /// The pages for which swap has room; `None` if it is not known.
    pub swap_free: Option<u64>,
    /// The parts that could not be read.
    pub missing: Vec<Missing>,
    /// Pageblocks and free blocks by type.
    pub types: Option<PageTypeInfo>,
    /// Whether some memory is not initialised yet.
    is_partial: bool,
    /// The ranges of memory, if this user may read them: some kernels have words for holes that look like kernel memory.
    memory: Vec<(u64, u64)>,
    lists: Option<BuddyInfo>,
    /// The settings of a recording, by path without the first `/`.
    settings: BTreeMap<String, String>,
    /// The folder that holds the files of a `.pbrec` while they are read.
    _unpacked: Option<ScratchFolder>,
}

impl Source {
    /// Opens the tree at a root, or a recording (its start).
    ///
    /// # Errors
    /// If there is no readable `zoneinfo`, or a file contradicts its format.
    pub fn open(root: &Path) -> Result<Self, Error> {
        if !root.is_file() {
            return Self::open_folder(root, None);
        }
        let recording = Recording::open(root)?;
        let folder = ScratchFolder::new().map_err(Error::io(root))?;
        recording.write_state(folder.path())?;
        let opened = Self::open_folder(folder.path(), Some(recording));
        // The folder no longer exists when its name is read.
        let mut source = opened.map_err(|error| match error {
            Error::Missing { what, expected, .. } => {
                Error::Missing { path: root.to_owned(), what, expected }
            }
            error => error,
        })?;
        source._unpacked = Some(folder);
        Ok(source)
    }

    fn open_folder(root: &Path, whole: Option<Recording>) -> Result<Self, Error> {
        let recording = root.join("start").is_dir().then(|| root.join("start"));
        let parent = recording.as_ref().map(|_| root).or_else(|| {
            // One end of a recording was named.
            let parent = root.parent()?;
            (root.ends_with("start") || root.ends_with("end")).then_some(parent)
        });
        let tree = Tree::new(recording.as_deref().unwrap_or(root));
        let path = tree.find("/proc/zoneinfo").ok_or_else(|| Error::Missing {
            path: tree.root().to_owned(),
            what: "zoneinfo",
            expected: "this machine, a copied tree with proc/zoneinfo, or a state that `pageblock record` saved",
        })?;
        let mut missing = Vec::new();
        let mut read = |file: &str| match tree.read(file) {
            Ok(text) => text,
            Err(why) => {
                missing.push(why);
                String::new()
            }
        };
        let zones = zoneinfo::read(read("/proc/zoneinfo"), &path)?;
        let meminfo = MemInfo::parse(&read("/proc/meminfo"));
        let types = parse(read("/proc/pagetypeinfo"), "pagetypeinfo", PageTypeInfo::read)?;
        let lists = parse(read("/proc/buddyinfo"), "buddyinfo", BuddyInfo::read)?;
        let version = tree
            .setting("/proc/version")
            .or_else(|| tree.setting("/proc/sys/kernel/osrelease"))
            .and_then(|text| KernelVersion::parse(&text));
        let whole = whole.or_else(|| Recording::open(parent.filter(|_| version.is_none())?).ok());
        let version = version.or_else(|| Some(whole.as_ref()?.kernel.clone()));
        let settings = whole.map_or_else(BTreeMap::new, |recording| recording.settings);
        if version.is_none() {
            let why =
                "no such file: taken as before 6.9, whose compaction passes over large folios";
            missing.push(Missing { file: "/proc/version".to_owned(), why: why.to_owned() });
        }
        let page_kb = page_kb(&meminfo, &zones);
        let memory = iomem::memory(&tree.read("/proc/iomem").unwrap_or_default(), page_kb);
        let total = meminfo.get("MemTotal").unwrap_or(0);
        let uninitialised = uninitialised(total, page_kb, &zones);
        missing.extend(
            uninitialised
                .map(|found| Missing { file: "/proc/zoneinfo".to_owned(), why: found.to_string() }),
        );
        let pageblock = types.as_ref().and_then(|types| types.pageblock_order).unwrap_or(9).min(13);
        let orders = lists.as_ref().and_then(BuddyInfo::orders).unwrap_or(11);
        let gigantic = (1024 * 1024 / page_kb).ilog2() as u8;
        let sizes = Sizes { pageblock, largest: orders.clamp(1, 14) as u8 - 1, gigantic };
        let unevictable = setting(&tree, &settings, "compact_unevictable_allowed");
        let compaction = version.as_ref().map(|version| rules(version).compaction);
        let rules = Rules {
            large_folios: compaction.is_some_and(|rules| rules.moves_folios),
            unevictable: unevictable.is_none_or(|value| value != "0"),
            sampling: compaction.is_none_or(|rules| rules.sampling),
        };
        Ok(Self {
            tree,
            zones,
            version,
            page_kb,
            sizes,
            rules,
            swap_free: meminfo.get("SwapFree").map(|kb| kb / page_kb.max(1)),
            missing,
            types,
            is_partial: uninitialised.is_some(),
            memory,
            lists,
            settings,
            _unpacked: None,
        })
    }

    /// Returns a setting of `/proc/sys/vm`; `None` if it was not read or this kernel does not have it.
    #[must_use]
    pub fn sysctl(&self, name: &str) -> Option<String> {
        setting(&self.tree, &self.settings, name)
    }

    /// Returns the room of a zone for pages that move, if the lists by type can be read.
    pub(super) fn room(&self, zone: &Zone) -> Option<Room> {
        let (types, lists) = (self.types.as_ref()?, self.lists.as_ref()?);
        let name = (zone.node, zone.name.clone());
        let all = lists.free.get(&name)?;
        let small = usize::from(self.sizes.pageblock).min(all.len());
        let mut room = Room { at_least: 0, at_most: 0 };
        for (order, &blocks) in all.iter().enumerate().take(small) {
            let (mut targets, mut others) = (0, 0);
            for ((of, mt), counts) in &types.free {
                let count = counts.get(order).copied().unwrap_or(0);
                match mt {
                    _ if *of != name => {}
                    Migratetype::Movable | Migratetype::Cma => targets += count,
                    _ => others += count,
                }
            }
            // The kernel stops counting a list at 100,000.
            room.at_least += targets << order;
            room.at_most += blocks.saturating_sub(others) << order;
        }
        Some(room)
    }

    /// Returns the number of frames that will be read.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.zones.iter().map(|zone| zone.spanned).sum()
    }

    /// Reads the use of the frames of every zone.
    pub(super) fn tallies(&mut self, watch: Watch<'_>) -> Result<Vec<Tally>, Error> {
        let (sizes, rules) = (self.sizes, self.rules);
        let tallies = self.read(&mut |_, zone| Tally::new(zone.start(), sizes, rules), watch)?;
        if let Some(flags) = self.tree.find("/proc/kpageflags") {
            self.check(&tallies, &flags)?;
        }
        Ok(tallies)
    }

    /// Reads the use of the frames of every zone into a sink for each. `make` gets the zone and its index.
    ///
    /// # Errors
    /// If no file has the use of frames, or it cannot be read.
    pub fn read<S: Sink>(
        &mut self,
        make: &mut dyn FnMut(usize, &Zone) -> S,
        watch: Watch<'_>,
    ) -> Result<Vec<S>, Error> {
        let Some(flags) = self.tree.find("/proc/kpageflags") else { return self.of_snapshot(make) };
        let mut flags_table = Table::open(&flags)?;
        let mut counts = match self.tree.find("/proc/kpagecount").map(|path| Table::open(&path)) {
            Some(Ok(table)) => Some(table),
            _ => {
                let why = "not readable: kernel memory that is mapped is not told from free memory on per-CPU lists";
                let file = "/proc/kpagecount".to_owned();
                self.missing.push(Missing { file, why: why.to_owned() });
                None
            }
        };
        let mut order: Vec<usize> = (0..self.zones.len()).collect();
        // A compressed table is read from its beginning to its end.
        order.sort_by_key(|&at| self.zones[at].start());
        let mut sinks: Vec<Option<S>> = self.zones.iter().map(|_| None).collect();
        for at in order {
            let zone = &self.zones[at];
            let mut sink = make(at, zone);
            let span = (zone.start(), zone.end(), 1 << self.sizes.pageblock);
            let mut known = self.real(zone, &mut sink);
            frames::read(&mut flags_table, counts.as_mut(), span, &mut known, watch)?;
            sinks[at] = Some(sink);
        }
        Ok(sinks.into_iter().flatten().collect())
    }

    /// Returns a sink that counts frames without memory as holes: frames that are not initialised yet, and those in
    /// no range of memory.
    fn real<'s, S: Sink>(&self, zone: &Zone, sink: &'s mut S) -> Real<'s, S> {
        let mut absent = Vec::new();
        let mut at = zone.start();
        for &(from, to) in &self.memory {
            absent.push(at..from.clamp(at, zone.end()));
            at = at.max(to.min(zone.end()));
        }
        if !self.memory.is_empty() {
            absent.push(at..zone.end());
        }
        if self.is_partial {
            let later = uninitialised_frames(zone);
            absent.iter_mut().for_each(|range| range.end = range.end.min(later.start));
            absent.push(later);
        }
        absent.retain(|range| !range.is_empty());
        Real { sink, at: zone.start(), absent, block: 1 << self.sizes.pageblock }
    }

    /// Refuses the tables of kernels that mark only the first frame of a free block.
    fn check(&self, tallies: &[Tally], flags: &Path) -> Result<(), Error> {
        let counted: u64 = tallies.iter().map(|tally| tally.frames[Kind::Free as usize]).sum();
        let free: u64 = self.zones.iter().map(|zone| zone.free).sum();
        if counted >= free / 2 || free < 1 << 13 {
            return Ok(());
        }
        let why = format!(
            "{counted} frames are marked free, of {free} free pages in zoneinfo: this kernel marks only the first frame \
             of a free block, or the two are of different machines"
        );
        Err(Error::Unusable { path: flags.to_owned(), why })
    }

    /// Reads the snapshot that `pageblock record` writes beside the files.
    fn of_snapshot<S: Sink>(
        &mut self,
        make: &mut dyn FnMut(usize, &Zone) -> S,
    ) -> Result<Vec<S>, Error> {
        let folder = self.tree.root().to_owned();
        let Some(file) = self.tree.find("snapshot.txt") else {
            return Err(Error::Missing {
                path: folder,
                what: "kpageflags",
                expected: "/proc/kpageflags, or a copy of it (plain, .zst or .xz), or snapshot.txt",
            });
        };
        let why = "only snapshot.txt: dirty and mlocked pages and large folios count as pages that surely move";
        self.missing.push(Missing { file: "/proc/kpageflags".to_owned(), why: why.to_owned() });
        let legacy = self.version.as_ref().map(KernelVersion::numbering);
        let numbering = legacy.unwrap_or(Numbering::Modern);
        let cma = self.types.as_ref().is_some_and(PageTypeInfo::has_cma);
        let snapshot = Snapshot::read(Input::open(&file)?, Decoding { numbering, cma })?;
        let mut runs: Vec<(u64, u64, Kind)> = Vec::new();
        runs.extend(snapshot.free.iter().map(|b| (b.pfn.0, 1 << b.order, Kind::Free)));
        runs.extend(snapshot.pcp.iter().map(|b| (b.pfn.0, 1 << b.order, Kind::KernelOrFree)));
        runs.extend(
            snapshot.used.iter().map(|range| (range.pfn.0, range.count, of_use(range.state))),
        );
        runs.sort_unstable_by_key(|run| run.0);
        let mut sinks = Vec::new();
        for (number, zone) in self.zones.iter().enumerate() {
            let mut made = make(number, zone);
            let mut sink = self.real(zone, &mut made);
            let mut at = zone.start();
            let first = runs.partition_point(|run| run.0 < zone.start());
            for &(start, frames, kind) in &runs[first..] {
                if start >= zone.end() {
                    break;
                }
                let end = start.saturating_add(frames).min(zone.end());
                // Lines cannot overlap.
                let push = |sink: &mut Real<'_, S>, kind: Kind, frames: u64| {
                    // It does not say which page cache is dirty or mapped.
                    let run = Run { kind, frames, dropped: kind == Kind::File };
                    if frames > 0 {
                        sink.push(run);
                    }
                };
                push(&mut sink, Kind::Hole, start.saturating_sub(at));
                push(&mut sink, kind, end.saturating_sub(start.max(at)));
                at = at.max(end);
            }
            sink.finish();
            sinks.push(made);
        }
        Ok(sinks)
    }

    /// Returns the file that the frames come from.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        let found = self.tree.find("/proc/kpageflags").or_else(|| self.tree.find("snapshot.txt"));
        found.unwrap_or_else(|| self.tree.root().to_owned())
    }
}

/// Counts runs of at least a pageblock that look like kernel memory as holes, if no memory is there.
struct Real<'s, S> {
    sink: &'s mut S,
    /// The next frame.
    at: u64,
    /// The frames without memory, upwards.
    absent: Vec<Range<u64>>,
    /// The frames of a pageblock.
    block: u64,
}

impl<S: Sink> Sink for Real<'_, S> {
    fn push(&mut self, run: Run) {
        let end = self.at + run.frames;
        if run.kind == Kind::KernelOrFree && run.frames >= self.block {
            for absent in &self.absent {
                let (from, to) = (absent.start.max(self.at), absent.end.min(end));
                if from >= to || to - from < self.block {
                    continue;
                }
                if from > self.at {
                    self.sink.push(Run { frames: from - self.at, ..run });
                }
                self.sink.push(Run { kind: Kind::Hole, frames: to - from, ..run });
                self.at = to;
            }
        }
        if end > self.at {
            self.sink.push(Run { frames: end - self.at, ..run });
        }
        self.at = end;
    }

    fn finish(&mut self) {
        self.sink.finish();
    }
}

/// Returns a setting of `/proc/sys/vm`, from a tree or from a recording.
fn setting(tree: &Tree, settings: &BTreeMap<String, String>, name: &str) -> Option<String> {
    let path = format!("proc/sys/vm/{name}");
    tree.setting(&format!("/{path}")).or_else(|| Some(settings.get(&path)?.trim().to_owned()))
}

fn parse<T>(
    text: String,
    name: &str,
    read: fn(Input) -> Result<T, pageblock_recording::Error>,
) -> Result<Option<T>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    Ok(Some(read(Input::from_reader(std::io::Cursor::new(text), Path::new(name))?)?))
}

const fn of_use(state: PageUse) -> Kind {
    match state {
        PageUse::File => Kind::File,
        PageUse::Anon => Kind::Anon,
        PageUse::Shmem => Kind::Shmem,
        PageUse::Slab => Kind::Slab,
        PageUse::PageTable => Kind::PageTable,
        PageUse::Reserved => Kind::Reserved,
        PageUse::Kernel | PageUse::Other => Kind::Kernel,
        PageUse::IsolatedFree | PageUse::KernelOrPcp => Kind::KernelOrFree,
        PageUse::OtherLru => Kind::OffLru,
    }
}
