//! `/proc/buddyinfo`, `/proc/pagetypeinfo` and `/proc/vmstat`.

use std::collections::BTreeMap;

use pageblock::frame::{ORDER_LIMIT, Order};
use pageblock::mobility::Migratetype;

use crate::input::bytes::Input;
use crate::input::error::Error;

/// The maximum size of such a file, far above real ones; it bounds the memory that a damaged file can take.
pub(crate) const FILE_LIMIT_BYTES: u64 = 16 << 20;
/// The limit of counters, far above real ones: sums of some of them fit.
const COUNTER_LIMIT: i128 = 1 << 54;
/// The limit of free blocks of an order: those of 64 TiB.
const BLOCKS_LIMIT: u64 = 1 << 34;

/// The limit of counts in the files of a machine's state, far above real ones.
pub(crate) const COUNT_LIMIT: u64 = 1 << 52;

/// A zone by its name in `/proc`.
pub type ZoneName = (u16, String);

/// `/proc/buddyinfo`: free blocks per zone and order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BuddyInfo {
    /// For each zone the number of free blocks by order.
    pub free: BTreeMap<ZoneName, Vec<u64>>,
}

/// `/proc/pagetypeinfo`: free blocks per zone, type and order, and pageblocks per zone and type.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PageTypeInfo {
    /// The order of a pageblock; `None` if the file does not say.
    pub pageblock_order: Option<Order>,
    /// The types that this kernel has, in numeric order.
    pub types: Vec<Migratetype>,
    /// The number of free blocks by order. The kernel stops counting a list at 100,000.
    pub free: BTreeMap<(ZoneName, Migratetype), Vec<u64>>,
    /// The number of pageblocks.
    pub blocks: BTreeMap<(ZoneName, Migratetype), u64>,
}

/// `/proc/vmstat`: counters by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VmStat(pub BTreeMap<String, u64>);

impl VmStat {
    /// Returns the counters of a text. Lines that are not a name and a number are left out.
    pub fn counters(text: &str) -> impl Iterator<Item = (&str, u64)> {
        text.lines().filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            Some((name, amount(value)?))
        })
    }

    /// Reads the text. Lines that are not a name and a number are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(Self::counters(text).map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Reads the file.
    ///
    /// # Errors
    /// If a line is not a name and a number.
    pub fn read(mut input: Input) -> Result<Self, Error> {
        let mut counters = BTreeMap::new();
        each_line(&mut input, |line| {
            let (name, value) = Self::counters(line).next().ok_or("a name and a number")?;
            counters.insert(name.to_owned(), value);
            Ok(())
        })?;
        Ok(Self(counters))
    }
}

/// Parses a counter. Some can go below zero for a moment, and then wrap.
pub(crate) fn amount(text: &str) -> Option<u64> {
    Some(text.trim().parse::<i128>().ok()?.clamp(0, COUNTER_LIMIT) as u64)
}

impl BuddyInfo {
    /// Reads the file.
    ///
    /// # Errors
    /// If a line is not in the format.
    pub fn read(mut input: Input) -> Result<Self, Error> {
        let mut info = Self::default();
        each_line(&mut input, |line| {
            let (zone, rest) = zone_and_rest(line)?;
            info.free.insert(zone, counts(rest)?);
            Ok(())
        })?;
        Ok(info)
    }

    /// Returns the number of orders that a zone has; `None` if there is no zone.
    #[must_use]
    pub fn orders(&self) -> Option<usize> {
        self.free.values().map(Vec::len).max()
    }
}

impl PageTypeInfo {
    /// Reads the file.
    ///
    /// # Errors
    /// If a line is not in the format.
    pub fn read(mut input: Input) -> Result<Self, Error> {
        let mut info = Self::default();
        let mut columns = None::<Vec<Migratetype>>;
        let mut mixed = false;
        each_line(&mut input, |line| {
            if let Some(order) = line.strip_prefix("Page block order:") {
                let order = order.trim().parse().ok().filter(|&order| order <= ORDER_LIMIT);
                info.pageblock_order = Some(order.ok_or("an order from 0 to 15")?);
            } else if let Some(names) = line.strip_prefix("Number of blocks type") {
                let names = names.split_ascii_whitespace().map(type_named);
                columns = Some(names.collect::<Option<_>>().ok_or(TYPE_NAMES)?);
            } else if line.starts_with("Number of mixed blocks") {
                mixed = true;
            } else if line.starts_with("Node") && !mixed {
                let (zone, rest) = zone_and_rest(line)?;
                if let Some(rest) = rest.strip_prefix(", type") {
                    let rest = rest.trim_start();
                    let (name, rest) = rest.split_once(' ').ok_or("counts after the type")?;
                    let mt = type_named(name).ok_or(TYPE_NAMES)?;
                    if !info.types.contains(&mt) {
                        info.types.push(mt);
                    }
                    info.free.insert((zone, mt), counts(rest)?);
                } else if let Some(columns) = &columns {
                    for (&mt, count) in columns.iter().zip(counts(rest)?) {
                        info.blocks.insert((zone.clone(), mt), count);
                    }
                }
            }
            Ok(())
        })?;
        Ok(info)
    }

    /// Reports whether the kernel has the CMA type.
    #[must_use]
    pub fn has_cma(&self) -> bool {
        self.types.contains(&Migratetype::Cma)
    }
}

const TYPE_NAMES: &str = "Unmovable, Movable, Reclaimable, HighAtomic, CMA, Isolate or Reserve";

fn type_named(name: &str) -> Option<Migratetype> {
    Migratetype::ALL.into_iter().find(|mt| mt.name() == name)
}

/// Parses `Node %d, zone %8s` and returns the rest.
pub(crate) fn zone_and_rest(line: &str) -> Result<(ZoneName, &str), &'static str> {
    const FORM: &str = "Node N, zone NAME";
    let (node, rest) =
        line.strip_prefix("Node").and_then(|l| l.split_once(", zone")).ok_or(FORM)?;
    let node = node.trim().parse().map_err(|_| FORM)?;
    let rest = rest.trim_start();
    let end = rest.find([' ', ',']).unwrap_or(rest.len());
    Ok(((node, rest[..end].to_owned()), &rest[end..]))
}

fn counts(text: &str) -> Result<Vec<u64>, &'static str> {
    let count = |word: &str| {
        let count: u64 = word.trim_start_matches('>').parse().map_err(|_| "numbers of blocks")?;
        Ok(count.min(BLOCKS_LIMIT))
    };
    text.split_ascii_whitespace().map(count).collect()
}

pub(crate) fn each_line(
    input: &mut Input,
    mut each: impl FnMut(&str) -> Result<(), &'static str>,
) -> Result<(), Error> {
    while let Some(line) = input.next_line()? {
        if line.offset > FILE_LIMIT_BYTES {
            return Err(Error::unexpected(input.place(), "more data", "a file of at most 16 MiB"));
        }
        let text = std::str::from_utf8(line.bytes).map_err(|_| "text in UTF-8");
        if let Err(expected) = text.and_then(&mut each) {
            let (found, number, offset) = (line.bytes.to_vec(), line.number, line.offset);
            return Err(Error::malformed(input.place_of(number, offset), &found, expected));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::path::Path;

    use super::*;

    fn input(text: &'static str) -> Input {
        Input::from_reader(Cursor::new(text), Path::new("proc")).unwrap()
    }

    #[test]
    fn pagetypeinfo_has_counts_blocks_and_types() {
        let info = PageTypeInfo::read(input(
            "Page block order: 9\nPages per block:  512\n\n\
             Free pages count per migrate type at order       0      1 \n\
             Node    0, zone      DMA, type    Unmovable      3 >100000 \n\
             Node    0, zone      DMA, type          CMA      0      0 \n\n\
             Number of blocks type     Unmovable          CMA \n\
             Node 0, zone      DMA            1            7 \n",
        ))
        .unwrap();
        let dma = (0, "DMA".to_owned());
        assert_eq!(info.pageblock_order, Some(9));
        assert!(info.has_cma());
        assert_eq!(info.free[&(dma.clone(), Migratetype::Unmovable)], [3, 100_000]);
        assert_eq!(info.blocks[&(dma, Migratetype::Cma)], 7);
    }

    #[test]
    fn buddyinfo_and_vmstat_have_numbers() {
        let info = BuddyInfo::read(input("Node 1, zone   Normal   5021   7740 \n")).unwrap();
        assert_eq!(info.free[&(1, "Normal".to_owned())], [5021, 7740]);
        assert_eq!(info.orders(), Some(2));
        let stat = VmStat::read(input("nr_free_pages 12\nnr_dirty -1\n")).unwrap();
        assert_eq!(stat.0, [("nr_dirty".to_owned(), 0), ("nr_free_pages".to_owned(), 12)].into());
    }

    #[test]
    fn numbers_are_limited() {
        let stat = VmStat::parse("a 18446744073709551615\nnoise\nb x\nc  3\n");
        assert_eq!(stat.0, [("a".to_owned(), 1 << 54), ("c".to_owned(), 3)].into());
        let info = BuddyInfo::read(input("Node 0, zone DMA 18446744073709551615\n")).unwrap();
        assert_eq!(info.free[&(0, "DMA".to_owned())], [1 << 34]);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let error = BuddyInfo::read(input("Node 1, zone Normal 1\nNode x\n")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "proc:2 (byte 22): found \"Node x\"; allowed: Node N, zone NAME"
        );
        for (text, line) in [("pgfault 5\npgsteal x\n", 2), ("pgfault\n", 1)] {
            let error = VmStat::read(input(text)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("proc:{line} ")), "{error}");
            assert!(error.ends_with("allowed: a name and a number"), "{error}");
        }
    }
}
