//! Pageblocks by type, and mixed pageblocks.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use pageblock::mobility::{MIGRATETYPES, Migratetype};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::value::extfrag::type_name;

/// A count for each migratetype. As JSON, an object with the types' names: always unmovable, movable
/// and reclaimable; the others if they are not 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TypeCounts([u64; MIGRATETYPES]);

impl TypeCounts {
    /// Returns the sum over all types.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Iterates over every type and its count, in the order of the types.
    pub fn iter(&self) -> impl Iterator<Item = (Migratetype, u64)> {
        Migratetype::ALL.into_iter().zip(self.0)
    }

    /// Iterates over the types that a table shows.
    pub fn shown(&self) -> impl Iterator<Item = (Migratetype, u64)> {
        self.iter().filter(|(mt, count)| mt.is_mergeable() || *count > 0)
    }
}

impl Index<Migratetype> for TypeCounts {
    type Output = u64;
    fn index(&self, mt: Migratetype) -> &u64 {
        &self.0[mt as usize]
    }
}

impl IndexMut<Migratetype> for TypeCounts {
    fn index_mut(&mut self, mt: Migratetype) -> &mut u64 {
        &mut self.0[mt as usize]
    }
}

impl Serialize for TypeCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.shown().map(|(mt, count)| (mt.name(), count)))
    }
}

impl<'de> Deserialize<'de> for TypeCounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut counts = Self::default();
        for (name, count) in BTreeMap::<String, u64>::deserialize(deserializer)? {
            let mt = type_name::parse(&name).ok_or_else(|| type_name::unknown(&name))?;
            counts[mt] = count;
        }
        Ok(counts)
    }
}

/// The type and content of one pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSummary {
    /// The pageblock's type.
    pub migratetype: Migratetype,
    /// Its allocated pages by the type that was requested.
    pub allocated: TypeCounts,
}

impl BlockSummary {
    /// Reports whether the block is mixed: whether it holds a page that was requested as another type
    /// than the block's, as `/proc/pagetypeinfo` counts with page owners
    /// (`pagetypeinfo_showmixedcount_print`).
    ///
    /// Linux: a CMA block counts as movable and is not mixed by movable pages. High-atomic, reserve and
    /// isolated blocks, whose type no request has, are mixed if requests of more than one type share
    /// them; the kernel counts them as mixed as soon as they hold a page.
    #[must_use]
    pub fn is_mixed(&self) -> bool {
        let own = match self.migratetype {
            Migratetype::Cma => Migratetype::Movable,
            mt => mt,
        };
        let mut present = self.allocated.iter().filter(|(_, pages)| *pages > 0).map(|(mt, _)| mt);
        if own.is_mergeable() { present.any(|mt| mt != own) } else { present.count() > 1 }
    }
}

/// Pageblocks counted by type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockCensus {
    /// All pageblocks by their type.
    pub by_type: TypeCounts,
    /// The mixed pageblocks by their type.
    pub mixed: TypeCounts,
}

impl BlockCensus {
    /// Counts pageblocks.
    #[must_use]
    pub fn of(blocks: impl IntoIterator<Item = BlockSummary>) -> Self {
        let mut census = Self::default();
        for block in blocks {
            census.by_type[block.migratetype] += 1;
            census.mixed[block.migratetype] += u64::from(block.is_mixed());
        }
        census
    }
}

#[cfg(test)]
mod tests {
    use pageblock::mobility::Migratetype::{Cma, HighAtomic, Movable, Reclaimable, Unmovable};

    use super::*;

    fn block(migratetype: Migratetype, held: &[Migratetype]) -> BlockSummary {
        let mut allocated = TypeCounts::default();
        held.iter().for_each(|mt| allocated[*mt] += 1);
        BlockSummary { migratetype, allocated }
    }

    #[test]
    fn a_block_is_mixed_by_one_foreign_page() {
        let census = BlockCensus::of([
            block(Movable, &[]),
            block(Movable, &[Movable, Movable]),
            block(Movable, &[Movable, Unmovable]),
            block(Movable, &[Unmovable]),
            block(Unmovable, &[Unmovable, Reclaimable]),
            block(Reclaimable, &[Reclaimable]),
            block(Cma, &[Movable]),
            block(Cma, &[Unmovable]),
            block(HighAtomic, &[Unmovable]),
            block(HighAtomic, &[Unmovable, Movable]),
        ]);
        let by_type: Vec<_> = census.by_type.shown().collect();
        assert_eq!(
            by_type,
            [(Unmovable, 1), (Movable, 4), (Reclaimable, 1), (HighAtomic, 2), (Cma, 2)]
        );
        let mixed: Vec<_> = census.mixed.shown().collect();
        assert_eq!(
            mixed,
            [(Unmovable, 1), (Movable, 2), (Reclaimable, 0), (HighAtomic, 1), (Cma, 1)]
        );
    }

    #[test]
    fn json_names_the_types() {
        let mut counts = TypeCounts::default();
        counts[Movable] = 5;
        counts[Cma] = 2;
        let json = r#"{"Unmovable":0,"Movable":5,"Reclaimable":0,"CMA":2}"#;
        assert_eq!(serde_json::to_string(&counts).unwrap(), json);
        assert_eq!(serde_json::from_str::<TypeCounts>(json).unwrap(), counts);
        assert!(serde_json::from_str::<TypeCounts>(r#"{"Mobile":1}"#).is_err());
    }
}
