//! Compaction in the background.

pageblock::switches! {
    /// compaction in the background (kcompactd in mm/compaction.c)
    kcompactd: Kcompactd
    choice {
        /// Whether there is a kcompactd.
        kcompactd: Background {
            /// Up to 4.5: no.
            Off = "off",
            /// From 4.6: one thread per node.
            On = "on",
        } = Background::Off,
        /// kcompactd is woken for an order even if kswapd has nothing to do.
        /// From 4.17 (5ecd9d403ad0).
        kcompactd_wake_if_balanced: bool = false,
        /// Proactive compaction.
        proactive: Proactive {
            /// Up to 5.8: none.
            Off = "off",
            /// 5.9 to 6.14: until the score is ten below the one at which it starts.
            TenBelow = "ten_below",
            /// From 6.15: the same, with a distance of at most half of the lower score.
            HalfBelow = "half_below",
        } = Proactive::Off,
    }
    number {}
}
