//! kswapd: when it wakes, when it stops, how it waits.
//!
//! Source: `balance_pgdat`, `kswapd_try_to_sleep`, `wakeup_kswapd` (mm/vmscan.c), by version.

pageblock::switches! {
    /// background reclaim (kswapd in mm/vmscan.c)
    kswapd: Kswapd
    choice {
        /// When kswapd is not woken.
        kswapd_wake: KswapdWake {
            /// Up to 3.11: the low watermark holds in every zone.
            ZoneLow = "zone_low",
            /// 3.12 to 4.7: every zone is balanced (high watermark).
            ZoneBalanced = "zone_balanced",
            /// From 4.8: one eligible zone is balanced.
            AnyZone = "any_zone",
        } = KswapdWake::ZoneLow,
        /// When a node is balanced.
        node_balanced: NodeBalanced {
            /// Up to 4.7: all zones are for order 0; zones with a quarter of its memory are for higher orders.
            Quarter = "quarter",
            /// From 4.8: one eligible zone is.
            AnyZone = "any_zone",
        } = NodeBalanced::Quarter,
        /// A zone is balanced for an order only if compaction could run.
        /// Up to 4.0 here (Linux: 4.5).
        balanced_if_compactable: bool = true,
        /// kswapd gives up on a node after 16 runs without progress, and on an order by what all of a run reclaimed.
        /// From 4.12 (c73322d098e4).
        hopeless_nodes: bool = false,
        /// How much it reclaims at a priority.
        kswapd_target: KswapdTarget {
            /// Up to 3.10: no limit, and the priority rises until something is reclaimed.
            Unbounded = "unbounded",
            /// 3.11 to 4.7: the high watermark of each zone.
            ZoneHigh = "zone_high",
            /// From 4.8: the sum of the high watermarks.
            NodeHigh = "node_high",
        } = KswapdTarget::Unbounded,
        /// Which dirty file pages it writes.
        kswapd_writes: KswapdWrites {
            /// Up to 3.10: those that it scans at a low priority.
            LowPriority = "low_priority",
            /// 3.11 to 4.7: those of a list whose tail is dirty.
            DirtyTail = "dirty_tail",
            /// From 4.8 here: none.
            Never = "never",
        } = KswapdWrites::LowPriority,
        // When the disk falls behind.
        /// What it waits for.
        kswapd_waits: KswapdWaits {
            /// Up to 3.10: the end of congestion, if the disk is congested.
            IfCongested = "if_congested",
            /// 3.11 to 5.15: the end of congestion, for at most a tenth of a second.
            Congestion = "congestion",
            /// From 5.16 (8cd7c588decf): completed writes of its node's pages.
            Pages = "pages",
        } = KswapdWaits::IfCongested,
        // For the disk.
        /// After what it decides whether to wait.
        congestion_by: CongestionBy {
            /// Up to 4.7: a batch of pages.
            Batch = "batch",
            /// From 4.8: a scan of the node.
            Node = "node",
        } = CongestionBy::Batch,
        /// The order for which it reclaims.
        kswapd_order: KswapdOrder {
            /// Up to 4.0 here (Linux: 4.5): 0 if compaction can do the rest.
            SinglePages = "single_pages",
            /// From 4.1 here: the requested order.
            AsAsked = "as_asked",
        } = KswapdOrder::SinglePages,
        /// A wakeup during balancing is ignored unless its order is larger.
        /// Up to 4.0 here.
        same_wake_ignored: bool = true,
        /// When it resets compaction's skip hints.
        hints_forgotten: HintsForgotten {
            /// Up to 4.0 here: when kswapd goes to sleep after its short nap.
            AfterNap = "after_nap",
            /// From 4.1 here: before its short nap.
            BeforeNap = "before_nap",
        } = HintsForgotten::AfterNap,
        /// The order asked for is kept apart from the one reclaimed for, and a wakeup during a run is only recorded.
        /// From 4.1 here (Linux: 4.8).
        order_kept: bool = false,
        // In simulations, where time passes; docs/policies.md.
        /// An atomic request of order 0 in the slow path boosts its zones by a thousandth, at most once a second.
        /// In no Linux (Qiliang Yuan, v10 of 14 February 2026).
        atomic_boost: bool = false,
    }
    number {
        /// Runs in a row without progress after which a node is given up (`MAX_RECLAIM_RETRIES`).
        kswapd_retries: 1..=1000 = 16,
    }
}
