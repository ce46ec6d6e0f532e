//! The types of the slow path: requests, callers, steps and outcomes.

use crate::base::alloc_flags::AllocFlags;
use crate::base::frame::COSTLY_ORDER;
use crate::base::frame::Order;
use crate::base::mobility::Migratetype;
use crate::base::request::Gfp;

/// The request, and the orders of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// The flags.
    pub gfp: Gfp,
    /// The order.
    pub order: Order,
    /// The type; unmovable for every request where grouping by mobility is disabled.
    pub migratetype: Migratetype,
    /// The largest order of the machine.
    pub max_order: Order,
    /// The order of a pageblock.
    pub pageblock_order: Order,
}

impl Demand {
    pub(super) const fn is_costly(&self) -> bool {
        self.order > COSTLY_ORDER
    }
}

/// The caller (flags of `current`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Caller {
    /// The task frees memory for others (`PF_MEMALLOC`), or is a softirq that serves a memalloc
    /// socket.
    pub pf_memalloc: bool,
    /// The OOM killer chose the task.
    pub oom_victim: bool,
    /// The task has a real-time or deadline priority.
    pub rt_task: bool,
    /// The task is a kernel thread (`PF_KTHREAD`).
    pub kthread: bool,
    /// The request comes from an interrupt: only a softirq's flags count.
    pub in_interrupt: bool,
    /// A fatal signal is pending.
    pub fatal_signal: bool,
}

/// How hard compaction tries (`enum compact_priority`). Up to 4.7 there are the modes
/// [`CompactPriority::Async`] and [`CompactPriority::SyncLight`] only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum CompactPriority {
    /// The whole zone, hints ignored (`COMPACT_PRIO_SYNC_FULL`).
    SyncFull = 0,
    /// May wait for locks, not for writeback (`COMPACT_PRIO_SYNC_LIGHT`, the default).
    SyncLight = 1,
    /// Waits for nothing (`COMPACT_PRIO_ASYNC`).
    Async = 2,
}

impl CompactPriority {
    /// Returns the next harder priority, down to `hardest`.
    pub(crate) const fn harder(self, hardest: Self) -> Option<Self> {
        match self {
            Self::Async => Some(Self::SyncLight),
            Self::SyncLight if matches!(hardest, Self::SyncFull) => Some(Self::SyncFull),
            _ => None,
        }
    }
}

/// The result of a round of direct compaction, over all zones (`enum compact_result`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum CompactResult {
    /// Not tried: too little free memory to move pages to, or not permitted.
    Skipped,
    /// Not tried: it failed too often recently.
    Deferred,
    /// Everything was scanned without success.
    Complete,
    /// Part of a zone was scanned without success.
    PartialSkipped,
    /// Aborted because of contention.
    Contended,
    /// A block of the order is free.
    Success,
}

/// Why compaction gave up early (3.10 to 4.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Contention {
    /// It did not give up.
    #[default]
    None,
    /// A lock was contended.
    Lock,
    /// The task had to reschedule.
    Resched,
}

/// Which nodes an attempt may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Nodes {
    /// Those of the request's nodemask.
    Request,
    /// All of the zonelist: reserves ignore memory policies.
    Any,
}

/// How long to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Wait {
    /// Up to HZ/50 (20 ms), if a device is congested (`wait_iff_congested`).
    IffCongested,
    /// One tick.
    Tick,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Wake kswapd of every node of the zonelist that needs it. In 3.12 and 3.13 this
    /// also resets the fair batches of the zones. Report [`Outcome::Done`].
    WakeKswapd {
        /// The order that kswapd works for.
        order: Order,
    },
    /// Try the zones (`get_page_from_freelist`) at the request's order. Report [`Outcome::Page`] or
    /// [`Outcome::NoPage`].
    TryAlloc {
        /// What the attempt may use.
        flags: AllocFlags,
        /// Where.
        nodes: Nodes,
    },
    /// Compact the zones. Report [`Outcome::Compacted`], or [`Outcome::Page`] for a captured page.
    DirectCompact {
        /// The order that is wanted.
        order: Order,
        /// How hard.
        priority: CompactPriority,
    },
    /// Reclaim. Report [`Outcome::Reclaimed`].
    DirectReclaim {
        /// The order that is wanted.
        order: Order,
    },
    /// Drain all CPU lists. Report [`Outcome::Done`].
    DrainAll,
    /// Release one highatomic block. Report [`Outcome::Yes`] if there was one, else
    /// [`Outcome::No`].
    UnreserveHighatomic {
        /// Also the last block of a zone.
        force: bool,
    },
    /// Would some zone meet its minimum if all reclaimable memory were free
    /// (`should_reclaim_retry`)? Report [`Outcome::Yes`] or [`Outcome::No`].
    ReclaimRetry {
        /// The flags of the watermark test.
        flags: AllocFlags,
        /// Rounds without progress, up to the policy's `reclaim_retries`. For each of them 4.8 counts a sixteenth less
        /// of the reclaimable memory.
        no_progress_loops: u32,
    },
    /// Would compaction be suitable in some zone if all reclaimable memory were free
    /// (`compaction_zonelist_suitable`)? Report [`Outcome::Yes`] or [`Outcome::No`].
    CompactRetry {
        /// The flags of the watermark test.
        flags: AllocFlags,
    },
    /// Nothing to do: from here on blocks of other types may be split. Report [`Outcome::Done`].
    DropNofragment,
    /// Wait. Report [`Outcome::Done`].
    Wait(Wait),
    /// Call the OOM killer. Report [`Outcome::Oom`].
    Oom,
    /// The request is served. Nothing follows.
    Served,
    /// The request fails. Nothing follows.
    Fail,
}

/// What the OOM killer did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum OomResult {
    /// A victim is dying.
    Killed,
    /// There was no task to kill.
    Nothing,
    /// Another task is killing.
    Busy,
}

/// The outcome of the last [`Step`]. An outcome that does not fit the step counts as failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// There was no step yet.
    Start,
    /// It is done.
    Done,
    /// The page was allocated.
    Page,
    /// No page.
    NoPage,
    /// Compaction ended without a captured page.
    Compacted(CompactResult, Contention),
    /// Reclaim freed pages.
    Reclaimed {
        /// The number of pages.
        pages: u64,
    },
    /// Yes.
    Yes,
    /// No.
    No,
    /// What the OOM killer did.
    Oom(OomResult),
}
