//! kswapd: reclaim ahead of need, one thread a node, as steps for whoever runs it.
//!
//! Source: `kswapd`, `balance_pgdat`, `kswapd_try_to_sleep`, `wakeup_kswapd` (mm/vmscan.c).

use pageblock::alloc_flags::{AllocFlags, Watermark};
use pageblock::event::Observer;
use pageblock::frame::Order;
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock::policy::{Boost, Nofragment};
use pageblock_kernel::rules::kcompactd::Background;
use pageblock_kernel::rules::kswapd::{
    HintsForgotten, KswapdTarget, KswapdWaits, KswapdWake, NodeBalanced,
};
use pageblock_kernel::rules::reclaim::LruLists;

use crate::compact::suitable::Suitable;
use crate::reclaim::{
    DEF_PRIORITY, SWAP_CLUSTER_MAX, ScanControl, Seen, ShrinkNode, Stepped, compact_gap,
};
use crate::vm::Vm;

/// Rounds without a reclaimed page after which a node is hopeless (`MAX_RECLAIM_RETRIES`).
const HOPELESS: u32 = 16;
/// Pages that are written before a kswapd that waits for them goes on (`__acct_reclaim_writeback`).
pub const THROTTLE_PAGES: u64 = SWAP_CLUSTER_MAX;
/// A tenth of a second, in nanoseconds: the nap before kswapd sleeps, and a wait for writes.
pub const TENTH_SECOND_NS: u64 = 100_000_000;

/// What a background thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Daemon {
    /// It worked: charge what [`Vm::take_work`] says, and step again.
    Ran,
    /// It waits so long, in nanoseconds, or until a write ends.
    WaitWrites(u64),
    /// It waits so long, in nanoseconds, or until the disk's queue stops being congested (`congestion_wait`).
    WaitCongestion(u64),
    /// The same where the queue is congested; else it does not wait (`wait_iff_congested`).
    WaitIfCongested(u64),
    /// It waits so long, in nanoseconds, or until more than [`THROTTLE_PAGES`] pages of its node were written
    /// ([`NodeState::written`](crate::node::NodeState::written); `reclaim_throttle`).
    WaitPages(u64),
    /// It waits so long, in nanoseconds, or until it is woken.
    Nap(u64),
    /// It sleeps until it is woken.
    Sleep,
}

/// What kswapd is asked for, and where it stands.
#[derive(Clone, Debug)]
pub struct Kswapd {
    /// Somebody called since it last looked.
    pub woken: bool,
    order: Order,
    highest: ZoneKind,
    boost_wake: bool,
    pub(crate) failures: u32,
    /// Objects that shrinkers could not look at yet.
    deferred: u64,
    deferred_buffers: u64,
    at: At,
}

/// Where it stands.
#[derive(Clone, Debug)]
enum At {
    Asleep,
    Balancing(Box<Balancing>),
    /// It napped: the order that it was asked for, and the one that it reclaimed for.
    Napping {
        asked: Order,
        reclaimed: Order,
        highest: ZoneKind,
    },
}

/// One run of `balance_pgdat`.
#[derive(Clone, Debug)]
struct Balancing {
    asked: Order,
    boosts: Vec<(usize, u64)>,
    boosted: bool,
    reclaimed: u64,
    boost_left: u64,
    sc: ScanControl,
    shrink: Option<ShrinkNode>,
}

impl Default for Kswapd {
    fn default() -> Self {
        Self {
            woken: false,
            order: 0,
            highest: ZoneKind::Dma,
            boost_wake: false,
            failures: 0,
            deferred: 0,
            deferred_buffers: 0,
            at: At::Asleep,
        }
    }
}

impl Kswapd {
    /// Tells whether it is reclaiming.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.at, At::Balancing(_))
    }

    /// Tells whether its node gave it nothing so often that it left it alone, until a task reclaims something there.
    #[must_use]
    pub const fn is_hopeless(&self) -> bool {
        self.failures >= HOPELESS
    }

    fn ask(&mut self, highest: ZoneKind, order: Order) {
        self.order = self.order.max(order);
        self.highest = self.highest.max(highest);
    }

    /// About to nap: who called meanwhile is not heard but for a larger order (up to 4.0). A call is forgotten, too,
    /// where the last order was not given up.
    fn forget_same(&mut self, asked: Order, reclaimed: Order) {
        let kept = asked == reclaimed;
        self.woken = kept && self.order > asked;
        if kept && !self.woken {
            self.order = 0;
        }
    }

    /// A watermark was boosted while a block was allocated.
    pub(crate) fn boost_wake(&mut self, zone: ZoneKind, order: Order) {
        self.ask(zone, order);
        self.boost_wake = true;
        self.woken = true;
    }

    pub(crate) fn take_boost_wake(&mut self) -> bool {
        std::mem::take(&mut self.boost_wake)
    }

    pub(crate) fn take_deferred(&mut self) -> u64 {
        std::mem::take(&mut self.deferred)
    }

    pub(crate) fn take_deferred_buffers(&mut self) -> u64 {
        std::mem::take(&mut self.deferred_buffers)
    }

    pub(crate) fn set_deferred_buffers(&mut self, buffers: u64) {
        self.deferred_buffers = buffers;
    }

    pub(crate) fn set_deferred(&mut self, objects: u64) {
        self.deferred = objects;
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Asks the kswapd of a node for free blocks (`wakeup_kswapd`), unless all is well there.
    /// `direct` says that the caller reclaims itself too.
    pub(crate) fn wake_kswapd(
        &mut self,
        node: usize,
        order: Order,
        highest: ZoneKind,
        direct: bool,
    ) {
        self.nodes[node].kswapd.ask(highest, order);
        let well = self.leaves_asleep(node, order, highest);
        let zones = self.allocator.zones();
        let boosted =
            self.zones_of(node).any(|z| zones[z].kind() <= highest && zones[z].boost() > 0);
        let hopeless = self.kernel.kswapd.hopeless_nodes && self.nodes[node].kswapd.is_hopeless();
        if hopeless || (well && !boosted) {
            // What is missing is not memory.
            if self.kernel.kcompactd.kcompactd_wake_if_balanced && !direct {
                self.wake_kcompactd(node, order, highest);
            }
            return;
        }
        self.nodes[node].kswapd.woken = true;
    }

    /// Whether a node is well enough not to wake its kswapd.
    fn leaves_asleep(&self, node: usize, order: Order, highest: ZoneKind) -> bool {
        let mut zones =
            self.zones_of(node).filter(|&z| self.allocator.zones()[z].kind() <= highest);
        match self.kernel.kswapd.kswapd_wake {
            KswapdWake::ZoneLow => {
                zones.all(|z| self.zone_meets(z, order, Watermark::Low, ZoneKind::Dma))
            }
            KswapdWake::ZoneBalanced => zones.all(|z| {
                self.zone_meets(z, order, Watermark::High, ZoneKind::Dma)
                    && (order == 0
                        || self.compaction_suitable(z, order, ZoneKind::Dma) != Suitable::Skipped)
            }),
            KswapdWake::AnyZone => {
                zones.any(|z| self.zone_meets(z, order, Watermark::High, highest))
            }
        }
    }

    /// Whether a zone has its watermark for an order, as kswapd tests it.
    /// `highest` is the highest zone of the request: what lower zones keep from it does not count as
    /// free.
    pub(crate) fn zone_meets(
        &self,
        zone: usize,
        order: Order,
        mark: Watermark,
        highest: ZoneKind,
    ) -> bool {
        let zone = &self.allocator.zones()[zone];
        if zone.managed() == 0 {
            return false;
        }
        let free = match self.kernel.allocator.nofragment {
            Nofragment::DefragMode if order > 0 => zone.free_pages_in_blocks(),
            _ => zone.free_pages(),
        };
        zone.watermark_ok_if(free, order, zone.watermark(mark), highest, AllocFlags(0))
    }

    /// Whether a node has enough free memory (`pgdat_balanced`).
    pub(crate) fn balanced(&self, node: usize, order: Order, highest: ZoneKind) -> bool {
        let zones = self.allocator.zones();
        let mut eligible = self
            .zones_of(node)
            .filter(|&z| zones[z].kind() <= highest && zones[z].managed() > 0)
            .peekable();
        if eligible.peek().is_none() {
            return true;
        }
        match self.kernel.kswapd.node_balanced {
            NodeBalanced::AnyZone => {
                eligible.any(|z| self.zone_meets(z, order, Watermark::High, highest))
            }
            NodeBalanced::Quarter if order == 0 => {
                eligible.all(|z| self.zone_meets(z, 0, Watermark::High, ZoneKind::Dma))
            }
            NodeBalanced::Quarter => {
                let (mut balanced, mut managed) = (0, 0);
                for zone in eligible {
                    managed += zones[zone].managed();
                    if self.zone_meets(zone, order, Watermark::High, ZoneKind::Dma)
                        && !self.waits_for_compaction(zone, order)
                    {
                        balanced += zones[zone].managed();
                    }
                }
                balanced >= managed / 4
            }
        }
    }

    /// Whether a zone is not balanced for an order because compaction could not run (`zone_balanced`).
    pub(crate) fn waits_for_compaction(&self, zone: usize, order: Order) -> bool {
        order > 0
            && self.kernel.kswapd.balanced_if_compactable
            && self.compaction_suitable(zone, order, ZoneKind::Dma) == Suitable::Skipped
    }

    /// Runs a node's kswapd a little further on a CPU.
    pub fn step_kswapd(&mut self, node: usize, cpu: usize) -> Daemon {
        let at = std::mem::replace(&mut self.nodes[node].kswapd.at, At::Asleep);
        let (next, daemon) = match at {
            At::Asleep => {
                if std::mem::take(&mut self.nodes[node].kswapd.woken) {
                    (self.start_balancing(node, cpu), Daemon::Ran)
                } else {
                    (At::Asleep, Daemon::Sleep)
                }
            }
            At::Balancing(mut balancing) => {
                balancing.sc.cpu = cpu;
                match self.step_balancing(node, &mut balancing) {
                    Balanced::Not => (At::Balancing(balancing), Daemon::Ran),
                    Balanced::Waits => (At::Balancing(balancing), self.wait_for_disk()),
                    Balanced::Yes => self.try_to_sleep(node, &balancing),
                }
            }
            At::Napping { asked, reclaimed, highest } => {
                self.after_nap(node, cpu, (asked, reclaimed, highest))
            }
        };
        self.nodes[node].kswapd.at = next;
        let running = self.nodes[node].kswapd.is_running();
        let id = self.nodes[node].id;
        self.allocator.set_kswapd_running(NodeId(id), running);
        daemon
    }

    /// How reclaim's thread waits for the disk. Who asks for memory meanwhile does not end it.
    const fn wait_for_disk(&self) -> Daemon {
        match self.kernel.kswapd.kswapd_waits {
            KswapdWaits::Pages => Daemon::WaitPages(TENTH_SECOND_NS),
            KswapdWaits::IfCongested => Daemon::WaitIfCongested(TENTH_SECOND_NS),
            KswapdWaits::Congestion => Daemon::WaitCongestion(TENTH_SECOND_NS),
        }
    }

    fn start_balancing(&mut self, node: usize, cpu: usize) -> At {
        let kswapd = &mut self.nodes[node].kswapd;
        kswapd.woken = false;
        let asked = std::mem::take(&mut kswapd.order);
        let highest = std::mem::replace(&mut kswapd.highest, ZoneKind::Dma);
        let zones = self.allocator.zones();
        let boosts: Vec<(usize, u64)> = self
            .zones_of(node)
            .filter(|&z| zones[z].kind() <= highest && zones[z].boost() > 0)
            .map(|z| (z, zones[z].boost()))
            .collect();
        self.stat.pageoutrun += 1;
        let boost_left: u64 = boosts.iter().map(|b| b.1).sum();
        let boosted = self.kernel.allocator.boost != Boost::Off && boost_left > 0;
        self.stat.pageoutrun_boosted += u64::from(boosted);
        let sc = ScanControl {
            cpu,
            order: asked,
            priority: DEF_PRIORITY,
            nr_to_reclaim: 0,
            highest,
            kswapd: true,
            may_swap: !boosted,
            fs: true,
            nr_scanned: 0,
            nr_reclaimed: 0,
            enough: false,
            seen: Seen::default(),
        };
        let shrink = None;
        At::Balancing(Box::new(Balancing {
            asked,
            boosts,
            boosted,
            reclaimed: 0,
            boost_left,
            sc,
            shrink,
        }))
    }

    fn step_balancing(&mut self, node: usize, b: &mut Balancing) -> Balanced {
        if let Some(shrink) = &mut b.shrink {
            if shrink.step(self, &mut b.sc) == Stepped::More {
                if b.sc.waits_at_once(&self.kernel.kswapd) {
                    (b.sc.seen.immediate, b.sc.seen.all_dirty) = (0, false);
                    return Balanced::Waits;
                }
                return Balanced::Not;
            }
            b.shrink = None;
            return self.after_priority(node, b);
        }
        let balanced = self.balanced(node, b.sc.order, b.sc.highest);
        if !balanced && b.boosted {
            // The node is short: that is more urgent than the boost.
            self.drop_boosts(b);
            b.sc.priority = DEF_PRIORITY;
        }
        if balanced && !b.boosted {
            return self.finish_balancing(node, b);
        }
        let zones = self.allocator.zones();
        let eligible = self.zones_of(node).filter(|&z| zones[z].kind() <= b.sc.highest);
        b.sc.nr_to_reclaim = eligible
            .map(|z| (zones[z].boost() + zones[z].watermarks().high).max(SWAP_CLUSTER_MAX))
            .sum();
        let unbounded = self.kernel.kswapd.kswapd_target == KswapdTarget::Unbounded;
        if unbounded {
            b.sc.nr_to_reclaim = u64::MAX;
        }
        b.sc.enough = self.has_balanced_zone(node, &b.sc);
        b.sc.nr_scanned = 0;
        if !unbounded {
            b.sc.nr_reclaimed = 0;
        }
        b.sc.seen = Seen::default();
        self.age_node(node, &mut b.sc);
        b.shrink = Some(ShrinkNode::new(self, node, &b.sc));
        Balanced::Not
    }

    /// Gives anonymous pages a chance to be used before they are reclaimed, also where a boost bars from swapping
    /// (`age_active_anon`, `kswapd_age_node`): with lists for each zone those of the zones from above down to the
    /// first that is short.
    fn age_node(&mut self, node: usize, sc: &mut ScanControl) {
        let zones: Vec<usize> = self.zones_of(node).collect();
        for zone in zones.into_iter().rev() {
            if self.allocator.zones()[zone].managed() == 0 {
                continue;
            }
            self.age_anon(self.lru.of_zone(zone), sc);
            if self.kernel.reclaim.lru == LruLists::Node
                || !self.zone_meets(zone, sc.order, Watermark::High, ZoneKind::Dma)
            {
                break;
            }
        }
    }

    /// One priority is done.
    fn after_priority(&mut self, node: usize, b: &mut Balancing) -> Balanced {
        let enough_scanned = match self.kernel.kswapd.kswapd_target {
            KswapdTarget::Unbounded => return self.after_priority_unbounded(node, b),
            KswapdTarget::ZoneHigh => b.sc.enough,
            KswapdTarget::NodeHigh => b.sc.nr_scanned >= b.sc.nr_to_reclaim,
        };
        if b.sc.order > 0 && b.sc.nr_reclaimed >= compact_gap(b.sc.order) {
            b.sc.order = 0;
        }
        b.reclaimed += b.sc.nr_reclaimed;
        b.boost_left = b.boost_left.saturating_sub(b.sc.nr_reclaimed);
        let waits = b.sc.seen.immediate > 0;
        if b.boosted {
            self.stat.pgsteal_boosted += b.sc.nr_reclaimed;
            if b.boost_left == 0 || b.sc.nr_reclaimed == 0 {
                self.drop_boosts(b);
                if b.sc.nr_reclaimed == 0 {
                    return self.finish_balancing(node, b);
                }
            }
            if !enough_scanned {
                b.sc.priority = b.sc.priority.saturating_sub(1).max(DEF_PRIORITY - 2);
            }
        } else if !enough_scanned || b.sc.nr_reclaimed == 0 {
            b.sc.priority -= 1;
            if b.sc.priority < 1 {
                return self.finish_balancing(node, b);
            }
        }
        if waits { Balanced::Waits } else { Balanced::Not }
    }

    /// The same without a bound: priorities rise until something was reclaimed; then it starts over. The order is
    /// given up only where everything was scanned in vain.
    fn after_priority_unbounded(&mut self, node: usize, b: &mut Balancing) -> Balanced {
        let waits = b.sc.seen.immediate > 0;
        let little = b.sc.nr_reclaimed < SWAP_CLUSTER_MAX;
        if little && b.sc.priority > 0 {
            b.sc.priority -= 1;
        } else if little && b.sc.order == 0 {
            b.reclaimed += b.sc.nr_reclaimed;
            return self.finish_balancing(node, b);
        } else {
            if little {
                b.sc.order = 0;
            }
            b.reclaimed += std::mem::take(&mut b.sc.nr_reclaimed);
            b.sc.priority = DEF_PRIORITY;
            self.stat.pageoutrun += 1;
        }
        if waits { Balanced::Waits } else { Balanced::Not }
    }

    /// Ends the boosts that kswapd found when it started (those that came since stay).
    fn drop_boosts(&mut self, b: &mut Balancing) {
        for (zone, boost) in b.boosts.drain(..) {
            if let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(zone), CpuId(0)) {
                zone.end_boost(boost);
            }
        }
        if std::mem::take(&mut b.boosted) {
            // Whole blocks were what was missing.
            b.asked = b.asked.max(self.allocator.geometry().pageblock_order);
        }
        b.sc.may_swap = true;
    }

    fn finish_balancing(&mut self, node: usize, b: &mut Balancing) -> Balanced {
        self.drop_boosts(b);
        if b.reclaimed == 0 {
            self.nodes[node].kswapd.failures += 1;
        }
        Balanced::Yes
    }

    fn is_fine(&self, node: usize, order: Order, highest: ZoneKind) -> bool {
        let hopeless = self.kernel.kswapd.hopeless_nodes && self.nodes[node].kswapd.is_hopeless();
        hopeless || self.balanced(node, order, highest)
    }

    /// Naps if all is well, with compaction to follow; goes on otherwise.
    fn try_to_sleep(&mut self, node: usize, b: &Balancing) -> (At, Daemon) {
        let (asked, highest, order) = (b.asked, b.sc.highest, b.sc.order);
        self.nodes[node].writeback_congested = false;
        self.nodes[node].dirty_congested = false;
        let rules = &self.kernel.kswapd;
        if rules.same_wake_ignored {
            self.nodes[node].kswapd.forget_same(asked, order);
        }
        if self.nodes[node].kswapd.woken {
            return (self.start_balancing(node, b.sc.cpu), Daemon::Ran);
        }
        if self.is_fine(node, order, highest) {
            if rules.hints_forgotten == HintsForgotten::BeforeNap {
                self.reset_skip_hints(node);
            }
            if self.kernel.kcompactd.kcompactd == Background::On {
                self.wake_kcompactd(node, asked, highest);
            }
            return (
                At::Napping { asked, reclaimed: order, highest },
                Daemon::Nap(TENTH_SECOND_NS),
            );
        }
        self.stat.kswapd_high_wmark_hit_quickly += 1;
        self.nodes[node].kswapd.ask(highest, if rules.order_kept { order } else { 0 });
        // Where nothing could be reclaimed at any priority, kernels that know no hopeless node set zones aside; here
        // what is written next may change that. Others go on, and give up.
        let waits = b.reclaimed == 0 && !rules.hopeless_nodes;
        let next = self.start_balancing(node, b.sc.cpu);
        (next, if waits { Daemon::WaitWrites(TENTH_SECOND_NS) } else { Daemon::Ran })
    }

    fn after_nap(
        &mut self,
        node: usize,
        cpu: usize,
        (asked, reclaimed, highest): (Order, Order, ZoneKind),
    ) -> (At, Daemon) {
        if self.nodes[node].kswapd.woken {
            self.stat.kswapd_low_wmark_hit_quickly += 1;
            return (self.start_balancing(node, cpu), Daemon::Ran);
        }
        let rules = &self.kernel.kswapd;
        if self.is_fine(node, reclaimed, highest) {
            if rules.hints_forgotten == HintsForgotten::AfterNap {
                self.reset_skip_hints(node);
            }
            return (At::Asleep, Daemon::Sleep);
        }
        self.stat.kswapd_high_wmark_hit_quickly += 1;
        let order = if rules.order_kept { asked.min(reclaimed) } else { 0 };
        self.nodes[node].kswapd.ask(highest, order);
        (self.start_balancing(node, cpu), Daemon::Ran)
    }
}

/// Whether a run of balancing is over.
enum Balanced {
    Not,
    Waits,
    Yes,
}
