//! The state of a machine's memory: the use of every frame, its zones, and its kernel.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use pageblock::frame::Pfn;
use pageblock_doctor::checkup::{HugePages, Signs};
use pageblock_doctor::forecast::{Kind, Movable, Rules, Run, Sink, Source, Watch};
use pageblock_doctor::proc::zoneinfo::Zone;
use pageblock_kernel::{Kernel, Named};
use pageblock_recording::{BlockInfo, Snapshot, Watermarks, ZoneSnapshot};
use pageblock_replay::machine::{Machine, preset_of};

use crate::error::Error;
use crate::types;

/// The use of a frame, as compaction distinguishes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Use {
    /// Not the allocator's.
    Absent,
    /// On a free list.
    Free,
    /// Movable, unless it is pinned.
    Moves,
    /// Possibly movable.
    MayMove,
    /// Part of a folio above order 0.
    Folio,
    /// The kernel's, or free on a per-CPU list.
    Unknown,
    /// Not movable.
    Stays,
}

/// `drop_caches` frees the frame.
pub(crate) const DROPPED: u8 = 0x80;

impl Use {
    /// Returns the use of a frame from its byte.
    pub(crate) const fn of(byte: u8) -> Self {
        match byte & !DROPPED {
            1 => Self::Free,
            2 => Self::Moves,
            3 => Self::MayMove,
            4 => Self::Folio,
            5 => Self::Unknown,
            6 => Self::Stays,
            _ => Self::Absent,
        }
    }

    const fn of_kind(kind: Kind, rules: Rules) -> Self {
        match (kind, kind.movable(rules)) {
            (Kind::Reserved | Kind::Hole | Kind::Offline | Kind::Poison, _) => Self::Absent,
            (Kind::LargeFolio | Kind::HugeFolio, _) => Self::Folio,
            (_, Movable::Free) => Self::Free,
            (_, Movable::Yes) => Self::Moves,
            (_, Movable::Maybe) => Self::MayMove,
            (_, Movable::Unknown) => Self::Unknown,
            (_, Movable::No) => Self::Stays,
        }
    }
}

/// The state of a machine's memory.
pub struct State {
    /// The kernel's version.
    pub version: String,
    /// The preset whose rules are used for it.
    pub preset: &'static str,
    /// The setting of `transparent_hugepage/defrag`, where it was read.
    pub(crate) thp_defrag: Option<String>,
    /// The orders of the failures in the kernel's log, with their counts, most frequent first.
    pub failed: Vec<(u32, u64)>,
    /// The share of free memory in blocks below a pageblock that is where `pagetypeinfo` says, in percent; `None`
    /// without that file.
    pub agreement: Option<u64>,
    /// Pages on per-CPU lists.
    pub on_cpu_lists: u64,
    /// Compaction moves folios above order 0, and such a folio may end a run.
    pub moves_folios: bool,
    pub(crate) machine: Machine,
    /// The zones, the types of pageblocks and the limits of CPU lists, without pages.
    pub(crate) snapshot: Snapshot,
    /// The use of each frame.
    pub(crate) uses: Vec<u8>,
    pub(crate) kernel: Kernel,
    pub(crate) sysctls: Sysctls,
}

/// The settings that remedies change; `None` if this kernel lacks the setting, or it was not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sysctls {
    pub(crate) min_free_kbytes: Option<u64>,
    pub(crate) watermark_scale_factor: Option<u64>,
    pub(crate) watermark_boost_factor: Option<u64>,
    pub(crate) compaction_proactiveness: Option<u64>,
    pub(crate) defrag_mode: Option<u64>,
    pub(crate) extfrag_threshold: Option<u64>,
}

/// Writes the use of frames into a table.
struct Writer {
    at: u64,
    rules: Rules,
    table: Rc<RefCell<Vec<u8>>>,
}

impl Sink for Writer {
    fn push(&mut self, run: Run) {
        let used = Use::of_kind(run.kind, self.rules) as u8 | if run.dropped { DROPPED } else { 0 };
        let mut table = self.table.borrow_mut();
        let end = (self.at + run.frames) as usize;
        if used != Use::Absent as u8
            && let Some(frames) = table.get_mut(self.at as usize..end)
        {
            frames.fill(used);
        }
        self.at += run.frames;
    }
}

impl State {
    /// Reads the state of the machine below a root: `/`, a copied tree, or a recording (its start). `begin` is
    /// called with the number of frames to read. `watch` is called with the number read so far, and returns whether
    /// to stop.
    ///
    /// # Errors
    /// If the use of frames or the zones cannot be read, the machine cannot be modelled, or the caller asked to stop.
    pub fn read(root: &Path, begin: &dyn Fn(u64), watch: Watch<'_>) -> Result<Self, Error> {
        let mut source = Source::open(root)?;
        if source.page_kb != 4 {
            return Err(Error::PageSize(source.page_kb));
        }
        begin(source.frames());
        let mut snapshot = zones_of(&source);
        let machine = Machine::of_snapshot(&snapshot, source.sizes.pageblock)?;
        let table = Rc::new(RefCell::new(vec![0; snapshot.end_pfn().0 as usize]));
        let rules = source.rules;
        source.read(
            &mut |_, zone| Writer { at: zone.start(), rules, table: Rc::clone(&table) },
            watch,
        )?;
        let uses = table.take();
        let agreement = guess_types(&mut snapshot, &source, &uses);
        let version = source.version.as_ref().ok_or(Error::NoVersion)?;
        let preset = preset_of(version);
        let kernel = Named::parse(preset.name)?.kernel;
        let sysctls = Sysctls::of(&source);
        let failures = Signs::of_machine(&source.tree)
            .map_or_else(|_| Vec::new(), |(signs, _)| signs.failures);
        let mut failed: Vec<(u32, u64)> = failures.iter().map(|f| (f.order, f.count)).collect();
        failed.sort_by_key(|&(order, count)| (std::cmp::Reverse(count), order));
        Ok(Self {
            version: version.to_string(),
            preset: preset.name,
            thp_defrag: HugePages::choice(&source.tree, "defrag"),
            failed,
            agreement,
            on_cpu_lists: source.zones.iter().map(Zone::on_cpu_lists).sum(),
            moves_folios: rules.large_folios,
            machine,
            snapshot,
            uses,
            kernel: sysctls.set_in(kernel),
            sysctls,
        })
    }

    /// Returns the largest order of this kernel's allocator.
    #[must_use]
    pub fn largest_order(&self) -> u8 {
        self.machine.geometry.max_order
    }

    /// Returns the order of a pageblock.
    #[must_use]
    pub fn pageblock_order(&self) -> u8 {
        self.machine.geometry.pageblock_order
    }
}

impl Sysctls {
    fn of(source: &Source) -> Self {
        let number = |name| source.sysctl(name)?.parse().ok();
        Self {
            min_free_kbytes: number("min_free_kbytes"),
            watermark_scale_factor: number("watermark_scale_factor"),
            watermark_boost_factor: number("watermark_boost_factor"),
            compaction_proactiveness: number("compaction_proactiveness"),
            defrag_mode: number("defrag_mode"),
            extfrag_threshold: number("extfrag_threshold"),
        }
    }

    /// Returns a kernel with these settings. A setting that was not read has its default.
    fn set_in(self, mut kernel: Kernel) -> Kernel {
        let set = |to: &mut u32, value: Option<u64>| {
            if let Some(value) = value.and_then(|value| u32::try_from(value).ok()) {
                *to = value;
            }
        };
        set(&mut kernel.sysctl.extfrag_threshold, self.extfrag_threshold);
        set(&mut kernel.sysctl.compaction_proactiveness, self.compaction_proactiveness);
        set(&mut kernel.allocator.watermark_scale_factor, self.watermark_scale_factor);
        set(&mut kernel.allocator.watermark_boost_factor, self.watermark_boost_factor);
        kernel
    }
}

/// Returns the zones of a machine and the limits of their CPU lists.
fn zones_of(source: &Source) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for (at, zone) in (0..).zip(&source.zones) {
        snapshot.zones.push(zone_of(zone));
        snapshot.pcpinfo.extend(zone.lists.iter().map(|list| list.limits(at)));
    }
    snapshot
}

fn zone_of(zone: &Zone) -> ZoneSnapshot {
    let boost = zone.boost.unwrap_or(0);
    let mark = |at: usize| zone.wmark[at].saturating_sub(boost);
    ZoneSnapshot {
        node: zone.node,
        name: zone.name.clone(),
        start_pfn: Pfn(zone.start()),
        spanned: zone.spanned,
        present: zone.present,
        managed: zone.managed,
        wmark: Watermarks { min: mark(0), low: mark(1), high: mark(2), promo: 0 },
        boost,
        lowmem_reserve: zone.reserve.clone(),
        nr_free_pages: zone.free,
        ..ZoneSnapshot::default()
    }
}

/// Guesses the type of every pageblock. Returns how well the types agree with `pagetypeinfo`, in percent.
fn guess_types(snapshot: &mut Snapshot, source: &Source, uses: &[u8]) -> Option<u64> {
    let pageblock = 1_u64 << source.sizes.pageblock;
    let (mut agreed, mut all) = (0, 0);
    for (at, zone) in snapshot.zones.iter().enumerate() {
        let first = zone.start_pfn.align_down(source.sizes.pageblock);
        let span = first.0 as usize..zone.span().end.0 as usize;
        let uses = uses.get(span).unwrap_or_default();
        let name = (zone.node, zone.name.clone());
        let guess = types::guess(uses, pageblock, &name, source.types.as_ref());
        agreed += guess.agree;
        all += guess.pages;
        let starts = (first.0..).step_by(pageblock as usize).map(Pfn);
        snapshot.blocks.extend(starts.zip(guess.types).map(|(pfn, mt)| BlockInfo {
            zone: at as u16,
            pfn,
            mt: Some(mt),
            skip: false,
        }));
    }
    (all > 0).then(|| agreed * 100 / all)
}
