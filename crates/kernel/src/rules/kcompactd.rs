//! Compaction in the background.

choices! {
    /// Who compacts in the background.
    Background {
        /// Up to 4.5: nobody.
        Off = "off",
        /// From 4.6: a thread a node.
        On = "on",
    }
    /// Compaction without a request.
    Proactive {
        /// Up to 5.8.
        Off = "off",
        /// 5.9 to 6.14: until the score is ten below where it starts.
        TenBelow = "ten_below",
        /// From 6.15: until it is half below, by ten at most.
        HalfBelow = "half_below",
    }
}

group! {
    /// compaction in the background (kcompactd in mm/compaction.c)
    kcompactd: Kcompactd
    choice {
        /// Who compacts in the background.
        kcompactd: Background = Background::Off,
        /// kcompactd is woken for an order also where kswapd has nothing to do.
        /// From 4.17 (5ecd9d403ad0).
        kcompactd_wake_if_balanced: bool = false,
        /// Compaction without a request.
        proactive: Proactive = Proactive::Off,
    }
    number {}
}
