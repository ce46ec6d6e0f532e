//! Pages of files in blocks of more than a page (large folios).
//!
//! Source: mm/filemap.c, mm/readahead.c, fs/iomap/buffered-io.c, fs/ext4/super.c, by version.

pageblock::switches! {
    /// page cache in large folios (mm/filemap.c, mm/readahead.c)
    pagecache: PageCache
    choice {
        /// File systems whose files may be in memory in blocks of more than a page.
        cache_folios: CacheFolios {
            /// Up to 5.17: none.
            Pages = "pages",
            /// From 5.19 here (6795801366da: 5.18): XFS.
            Xfs = "xfs",
            /// From 6.17 here (7ac67301e82f: 6.16): XFS and ext4.
            Ext4 = "ext4",
        } = CacheFolios::Pages,
        /// A write gets a folio of its length.
        /// From 6.6 (d6bb59a9444d).
        write_folios: bool = false,
        /// A folio may have order 1.
        /// From 6.9 (8897277acfef).
        order_1_folios: bool = false,
        /// The order of the folios that are read ahead.
        ra_order: RaOrder {
            /// Up to 6.16: 2 more than that of the folio at which a window is read; 2 in the first.
            OfFolio = "of_folio",
            /// From 6.17: 0 in the first window of a stream, 2 more in each that follows.
            OfStream = "of_stream",
        } = RaOrder::OfFolio,
    }
    number {}
}
