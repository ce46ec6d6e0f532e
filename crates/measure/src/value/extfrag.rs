//! Fallbacks to lists of another type, broken down by type, order and effect.

use std::collections::BTreeMap;

use pageblock::event::Extfrag;
use pageblock::frame::{ORDER_LIMIT, Order};
use pageblock::mobility::Migratetype;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The properties by which `mm_page_alloc_extfrag` events are counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ExtfragKey {
    /// The type that was requested.
    pub alloc_mt: Migratetype,
    /// The type of the list that served the request.
    pub fallback_mt: Migratetype,
    /// The order that was requested.
    pub alloc_order: Order,
    /// The order of the block that was found.
    pub fallback_order: Order,
    /// `change_ownership`, as the kernel version prints it.
    pub owned: bool,
}

/// The effect of a fallback on the pageblock that it takes from; every event has exactly one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Harm {
    /// The block changes to the type of the request (`change_ownership`), movable or not.
    Claim,
    /// The block keeps its type and receives a page that cannot be moved: the request is not movable
    /// (unmovable, reclaimable or high-atomic).
    Pollution,
    /// The block keeps its type and receives a movable page, which compaction can move out again.
    Steal,
}

impl Harm {
    /// Every effect.
    pub const ALL: [Self; 3] = [Self::Claim, Self::Pollution, Self::Steal];

    /// Returns its plural, for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claim => "claims",
            Self::Pollution => "pollutions",
            Self::Steal => "steals",
        }
    }
}

impl ExtfragKey {
    /// Returns the effect of such an event on the pageblock.
    #[must_use]
    pub const fn harm(&self) -> Harm {
        match (self.owned, self.alloc_mt) {
            (true, _) => Harm::Claim,
            (false, Migratetype::Movable | Migratetype::Cma) => Harm::Steal,
            (false, _) => Harm::Pollution,
        }
    }

    /// Reports whether the block found was smaller than a pageblock: an external fragmentation event,
    /// as the tables of the mailing lists count it (`fragmenting=1`).
    #[must_use]
    pub const fn fragmenting(&self, pageblock_order: Order) -> bool {
        self.fallback_order < pageblock_order
    }
}

impl From<&Extfrag> for ExtfragKey {
    fn from(event: &Extfrag) -> Self {
        Self {
            alloc_mt: event.alloc_migratetype,
            fallback_mt: event.fallback_migratetype,
            alloc_order: event.alloc_order,
            fallback_order: event.fallback_order,
            owned: event.change_ownership,
        }
    }
}

/// Counts of `mm_page_alloc_extfrag` by kind.
///
/// As JSON it is a list of objects, one for each kind that occurred, sorted by key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExtfragMatrix {
    counts: BTreeMap<ExtfragKey, u64>,
}

impl ExtfragMatrix {
    /// Makes an empty matrix.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one event.
    pub fn record(&mut self, event: &Extfrag) {
        self.add(event.into(), 1);
    }

    /// Counts events of one kind.
    pub fn add(&mut self, key: ExtfragKey, count: u64) {
        *self.counts.entry(key).or_default() += count;
    }

    /// Iterates over the kinds that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (&ExtfragKey, u64)> {
        self.counts.iter().map(|(key, count)| (key, *count))
    }

    /// Returns the number of events of the kinds that `which` selects.
    #[must_use]
    pub fn sum(&self, which: impl Fn(&ExtfragKey) -> bool) -> u64 {
        self.iter().filter(|(key, _)| which(key)).map(|(_, count)| count).sum()
    }

    /// Returns the number of all events.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.sum(|_| true)
    }

    /// Returns the number of external fragmentation events: those that found less than a pageblock.
    #[must_use]
    pub fn fragmenting(&self, pageblock_order: Order) -> u64 {
        self.sum(|key| key.fragmenting(pageblock_order))
    }

    /// Returns the number of all events with one effect.
    #[must_use]
    pub fn harm(&self, harm: Harm) -> u64 {
        self.sum(|key| key.harm() == harm)
    }
}

/// One element of the JSON list.
#[derive(Serialize, Deserialize)]
struct ExtfragCount {
    #[serde(with = "type_name")]
    alloc_mt: Migratetype,
    #[serde(with = "type_name")]
    fallback_mt: Migratetype,
    #[serde(deserialize_with = "order")]
    alloc_order: Order,
    #[serde(deserialize_with = "order")]
    fallback_order: Order,
    owned: bool,
    count: u64,
}

impl Serialize for ExtfragMatrix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|(key, count)| ExtfragCount {
            alloc_mt: key.alloc_mt,
            fallback_mt: key.fallback_mt,
            alloc_order: key.alloc_order,
            fallback_order: key.fallback_order,
            owned: key.owned,
            count,
        }))
    }
}

impl<'de> Deserialize<'de> for ExtfragMatrix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut matrix = Self::new();
        for row in Vec::<ExtfragCount>::deserialize(deserializer)? {
            let ExtfragCount { alloc_mt, fallback_mt, alloc_order, fallback_order, owned, count } =
                row;
            let key = ExtfragKey { alloc_mt, fallback_mt, alloc_order, fallback_order, owned };
            if matrix.counts.insert(key, count).is_some() {
                return Err(serde::de::Error::custom(format_args!(
                    "extfrag: {alloc_mt} order {alloc_order} from {fallback_mt} order \
                     {fallback_order}, owned {owned}, occurs twice"
                )));
            }
        }
        Ok(matrix)
    }
}

fn order<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Order, D::Error> {
    let order = u64::deserialize(deserializer)?;
    Order::try_from(order).ok().filter(|&order| order <= ORDER_LIMIT).ok_or_else(|| {
        serde::de::Error::custom(format_args!("order {order}: the largest is {ORDER_LIMIT}"))
    })
}

/// A migratetype under its name in `/proc/pagetypeinfo`; numbers change between kernels.
pub(crate) mod type_name {
    use pageblock::mobility::Migratetype;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn parse(name: &str) -> Option<Migratetype> {
        Migratetype::ALL.into_iter().find(|mt| mt.name() == name)
    }

    pub(crate) fn unknown<E: serde::de::Error>(name: &str) -> E {
        let known = Migratetype::ALL.map(Migratetype::name).join(", ");
        E::custom(format_args!("migratetype `{name}`: none of {known}"))
    }

    // The signature that serde asks for.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(crate) fn serialize<S: Serializer>(mt: &Migratetype, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(mt.name())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Migratetype, D::Error> {
        let name = String::deserialize(from)?;
        parse(&name).ok_or_else(|| unknown(&name))
    }
}

#[cfg(test)]
mod tests {
    use pageblock::mobility::Migratetype::{Movable, Reclaimable, Unmovable};

    use super::*;

    fn key(
        alloc_mt: Migratetype,
        fallback_mt: Migratetype,
        found: Order,
        owned: bool,
    ) -> ExtfragKey {
        ExtfragKey { alloc_mt, fallback_mt, alloc_order: 0, fallback_order: found, owned }
    }

    fn example() -> ExtfragMatrix {
        let mut matrix = ExtfragMatrix::new();
        matrix.add(key(Unmovable, Movable, 2, false), 1);
        matrix.add(key(Unmovable, Movable, 9, true), 20);
        matrix.add(key(Movable, Unmovable, 3, false), 300);
        matrix.add(key(Movable, Reclaimable, 8, true), 4000);
        matrix.add(key(Reclaimable, Movable, 10, false), 50000);
        matrix
    }

    #[test]
    fn blocks_of_pageblock_order_and_more_do_not_fragment() {
        let matrix = example();
        assert_eq!(matrix.total(), 54321);
        assert_eq!(matrix.fragmenting(9), 4301);
        assert_eq!(matrix.fragmenting(10), 4321);
    }

    #[test]
    fn every_event_is_one_harm() {
        let matrix = example();
        assert_eq!(Harm::ALL.map(|harm| matrix.harm(harm)), [4020, 50001, 300]);
    }

    #[test]
    fn json_is_a_list_of_named_types() {
        let mut matrix = ExtfragMatrix::new();
        matrix.add(key(Unmovable, Movable, 2, false), 7);
        let json = r#"[{"alloc_mt":"Unmovable","fallback_mt":"Movable","alloc_order":0,"fallback_order":2,"owned":false,"count":7}]"#;
        assert_eq!(serde_json::to_string(&matrix).unwrap(), json);
        assert_eq!(serde_json::from_str::<ExtfragMatrix>(json).unwrap(), matrix);
        let whole = example();
        let again = serde_json::to_string(&whole).unwrap();
        assert_eq!(serde_json::from_str::<ExtfragMatrix>(&again).unwrap(), whole);
    }

    #[track_caller]
    fn check_refused(json: &str, expect: &str) {
        let error = serde_json::from_str::<ExtfragMatrix>(json).unwrap_err().to_string();
        assert!(error.starts_with(expect), "{error}");
    }

    #[test]
    fn wrong_rows_are_refused_with_the_wrong_value() {
        let row = r#"{"alloc_mt":"Unmovable","fallback_mt":"Movable","alloc_order":0,"fallback_order":2,"owned":false,"count":7}"#;
        check_refused(&format!("[{row},{row}]"), "extfrag: Unmovable order 0 from Movable order 2");
        let limit = format!("order 99: the largest is {ORDER_LIMIT}");
        check_refused(&format!("[{}]", row.replace(":2,", ":99,")), &limit);
        check_refused(
            &format!("[{}]", row.replace("Mov", "mov")),
            "migratetype `movable`: none of",
        );
    }
}
