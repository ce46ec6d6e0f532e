//! The purpose of a request, inferred from its flags.

use pageblock::frame::Order;
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;
use pageblock_replay::demand::is_of_file;

/// The use of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// A page or folio of a file: on an LRU list, reclaimable and migratable.
    File,
    /// A page of a mapping, or shared memory: migratable.
    Anon,
    /// Kernel memory, a huge page, or a block device's page with metadata: it stays where it is.
    Fixed,
}

impl Use {
    /// Returns the purpose of a request. A block device's page for metadata is on an LRU list, but the file system's journal
    /// holds it, so it is neither reclaimed nor migrated.
    pub(crate) fn of(order: Order, gfp: Gfp) -> Self {
        let movable = gfp.migratetype() == Some(Migratetype::Movable);
        if is_of_file(order, gfp) {
            Self::File
        } else if order > 0 || !movable || gfp.has(Gfp::NOFAIL) {
            Self::Fixed
        } else {
            Self::Anon
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_tell_files_from_mappings() {
        let of = |text| Use::of(0, Gfp::parse(text).unwrap());
        assert_eq!(of("GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO"), Use::Anon);
        assert_eq!(of("GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_WRITE"), Use::File);
        let read = "GFP_NOFS|__GFP_HIGHMEM|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP|__GFP_HARDWALL|__GFP_MOVABLE";
        assert_eq!(of(read), Use::File);
        let metadata = "GFP_NOFS|__GFP_NOFAIL|__GFP_COMP|__GFP_HARDWALL|__GFP_MOVABLE";
        assert_eq!(of(metadata), Use::Fixed);
        assert_eq!(of("GFP_HIGHUSER|__GFP_ACCOUNT"), Use::Fixed);
        assert_eq!(Use::of(9, Gfp::GFP_TRANSHUGE), Use::Fixed);
        assert_eq!(Use::of(2, Gfp::parse(read).unwrap()), Use::File);
        assert_eq!(Use::of(1, Gfp::GFP_HIGHUSER_MOVABLE), Use::Fixed);
    }
}
