//! Write-back, the block layer, and XFS's log.
//!
//! Source: mm/page-writeback.c, mm/backing-dev.c, block/, fs/xfs/xfs_log_cil.c.

pageblock::switches! {
    /// write-back, block layer and XFS's log (mm/page-writeback.c, block/, fs/xfs)
    writeback: Writeback
    choice {
        /// With swap, anonymous memory counts as dirtyable.
        /// Up to 3.13 (a1c3bfb2f67e).
        anon_dirtyable: bool = true,
        /// The disk's queue does not report congestion (blk-mq).
        /// From 5.0 (a1ce35fa4985).
        multi_queue: bool = false,
        /// What limits the size of a checkpoint of XFS's log.
        log_limit: LogLimit {
            /// Up to 5.6: an eighth of the log.
            Eighth = "eighth",
            /// From 5.7 (108a42358a05): the same, at most 32 MiB.
            Capped = "capped",
        } = LogLimit::Eighth,
    }
    number {
        /// max_sectors_kb: the largest write, KiB.
        max_sectors_kb: 4..=65536 = 1024,
    }
}
