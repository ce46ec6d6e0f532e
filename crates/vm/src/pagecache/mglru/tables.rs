//! Page tables through which a page was used since a walk last looked: the accessed bit of the entry that names a table, which
//! x86 sets too (`pmdp_test_and_clear_young`).

use crate::pagecache::space::SpaceId;

/// Pages that a page table maps, as a power of two.
pub(crate) const TABLE_ORDER: u32 = 9;

/// One bit for each page table of each mapping.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsedTables {
    used: Vec<Vec<u64>>,
}

impl UsedTables {
    /// Notes that a page of a mapping was used.
    pub(crate) fn note(&mut self, space: SpaceId, index: u32) {
        let (space, table) = (space as usize, (index >> TABLE_ORDER) as usize);
        if space >= self.used.len() {
            self.used.resize(space + 1, Vec::new());
        }
        let of_space = &mut self.used[space];
        if table / 64 >= of_space.len() {
            of_space.resize(table / 64 + 1, 0);
        }
        of_space[table / 64] |= 1 << (table % 64);
    }

    /// Returns whether a page table was used since the last call.
    pub(crate) fn take(&mut self, space: SpaceId, table: u32) -> bool {
        let word = self.used.get_mut(space as usize).and_then(|of| of.get_mut(table as usize / 64));
        let Some(word) = word else { return false };
        let bit = 1 << (table % 64);
        let used = *word & bit != 0;
        *word &= !bit;
        used
    }

    /// Forgets a mapping.
    pub(crate) fn forget(&mut self, space: SpaceId) {
        if let Some(of_space) = self.used.get_mut(space as usize) {
            of_space.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_seen_once() {
        let mut tables = UsedTables::default();
        tables.note(3, 512 * 70 + 5);
        assert!(!tables.take(3, 69) && !tables.take(9, 70));
        assert!(tables.take(3, 70) && !tables.take(3, 70));
        tables.note(3, 0);
        tables.forget(3);
        assert!(!tables.take(3, 0));
    }
}
