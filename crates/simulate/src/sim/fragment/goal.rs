//! The state that is asked for, and what leads to it from another one.

use std::fmt;
use std::str::FromStr;

use pageblock_measure::value::setup::FragmentRecord;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::toml_file::{Keys, Mistake};

/// A share, in hundredths of a percent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Share(u64);

/// All of something.
const WHOLE: u64 = 10_000;

impl Share {
    /// Returns the share that a part has of a whole; none of nothing.
    #[must_use]
    pub fn part(part: u64, whole: u64) -> Self {
        Self((u128::from(part) * u128::from(WHOLE)).checked_div(u128::from(whole)).unwrap_or(0)
            as u64)
    }

    /// Returns this share of an amount, rounded down.
    #[must_use]
    pub fn of(self, amount: u64) -> u64 {
        (u128::from(amount) * u128::from(self.0) / u128::from(WHOLE)) as u64
    }

    /// Returns the distance from another share.
    #[must_use]
    pub fn distance(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, whole) = match text.trim_end().strip_suffix('%') {
            Some(number) => (number.trim_end(), 100.0),
            None => (text, 1.0),
        };
        let share = number.parse::<f64>().ok().filter(|share| (0.0..=whole).contains(share));
        let share = share.ok_or_else(|| "allowed: 0% to 100%, or 0 to 1".to_owned())?;
        Ok(Self((share / whole * WHOLE as f64).round() as u64))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{} %", self.0 / 100, self.0 % 100 / 10))
    }
}

impl Serialize for Share {
    /// Writes it in percent.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.0 as f64 / 100.0)
    }
}

impl<'de> Deserialize<'de> for Share {
    /// Reads percent.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let percent = f64::deserialize(from)?;
        format!("{percent}%").parse().map_err(serde::de::Error::custom)
    }
}

/// A state that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Goal {
    /// The free share of memory.
    #[serde(rename = "free_percent")]
    pub free: Share,
    /// The share of pageblocks that have a page which does not move.
    #[serde(rename = "unmovable_percent")]
    pub unmovable: Share,
    /// The share of free memory that is in blocks below a pageblock.
    #[serde(rename = "spread_percent")]
    pub spread: Share,
}

/// How free memory is spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Spread {
    /// The pages that the allocator manages.
    pub managed: u64,
    /// Free pages in blocks of a pageblock and more.
    pub whole: u64,
    /// Free pages in smaller blocks.
    pub scattered: u64,
}

impl Spread {
    /// Returns all free pages.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.whole + self.scattered
    }

    /// Returns the free share of memory.
    #[must_use]
    pub fn free_share(&self) -> Share {
        Share::part(self.free(), self.managed)
    }

    /// Returns the scattered share of free memory.
    #[must_use]
    pub fn spread(&self) -> Share {
        Share::part(self.scattered, self.free())
    }
}

/// What leads from a state towards another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// Free pageblocks to take.
    pub take: u64,
    /// Pageblocks to give back whole.
    pub give: u64,
    /// Pages to give back one by one.
    pub release: u64,
    /// Pages to take one by one, wherever they are.
    pub fill: u64,
}

/// Shares `count` pages out over pageblocks that can spare so many, about as many of each as it can. Returns the pages of each.
#[must_use]
pub fn share_out(spare: &[u64], count: u64) -> Vec<u64> {
    let mut left: u64 = spare.iter().sum();
    let mut wanted = count.min(left);
    let share = |&spare: &u64| {
        // The last one takes what rounding left.
        let share = (wanted * spare).div_ceil(left.max(1)).min(spare).min(wanted);
        (left, wanted) = (left - spare, wanted - share);
        share
    };
    let shares = spare.iter().map(share).collect();
    debug_assert_eq!(wanted, 0, "pages that were to be given back stayed");
    shares
}

impl Goal {
    /// The keys of a machine's TOML and argument that ask for one.
    pub const KEYS: [&str; 3] = ["free", "unmovable", "spread"];

    /// Sets one of its keys.
    ///
    /// # Errors
    /// If there is no such key, or the text is no share; with what is allowed.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        let share = match key {
            "free" => &mut self.free,
            "unmovable" => &mut self.unmovable,
            "spread" => &mut self.spread,
            _ => return Err(format!("allowed: {}", Self::KEYS.join(", "))),
        };
        *share = text.parse()?;
        Ok(())
    }

    /// Reads the table `[fragment]` of a machine, if there is one.
    pub(crate) fn read(keys: &mut Keys<'_>) -> Result<Option<Self>, Mistake> {
        if !keys.has("fragment") {
            return Ok(None);
        }
        let (mut keys, mut goal) = (keys.table("fragment", "[fragment]")?, Self::default());
        keys.require("free")?;
        for key in Self::KEYS {
            let text = keys.string_or(key, "0%")?;
            goal.set(key, &text)
                .map_err(|why| keys.mistake(&format!("`{key}` is \"{text}\"; {why}")))?;
        }
        keys.end()?;
        Ok(Some(goal))
    }

    /// Returns it as a run keeps it.
    #[must_use]
    pub fn record(&self) -> FragmentRecord {
        let text = |share: Share| format!("{}%", share.0 as f64 / 100.0);
        FragmentRecord {
            free: text(self.free),
            unmovable: text(self.unmovable),
            spread: text(self.spread),
        }
    }

    /// Returns free pages in whole blocks, and scattered ones, of the state that is asked for.
    fn pages(&self, managed: u64) -> (u64, u64) {
        let free = self.free.of(managed);
        let scattered = self.spread.of(free);
        (free - scattered, scattered)
    }

    /// Returns what leads to it from a state whose pageblocks have `block` pages.
    #[must_use]
    pub fn step(&self, now: &Spread, block: u64) -> Step {
        let (whole, scattered) = self.pages(now.managed);
        Step {
            take: now.whole.saturating_sub(whole) / block,
            give: whole.saturating_sub(now.whole) / block,
            release: scattered.saturating_sub(now.scattered),
            fill: now.scattered.saturating_sub(scattered),
        }
    }

    /// Returns why a state cannot lead to it: free memory can be taken and scattered, but neither made nor gathered. Below
    /// `reserve` free pages the kernel would reclaim.
    #[must_use]
    pub fn obstacle(&self, now: &Spread, block: u64, reserve: u64) -> Option<String> {
        let (whole, _) = self.pages(now.managed);
        let free = self.free.of(now.managed);
        if free < reserve {
            let least = Share::part(reserve, now.managed);
            return Some(format!("{} free: below {least} this kernel reclaims", self.free));
        }
        // A pageblock that is neither free nor taken has at least one page in use.
        if now.free() < free + self.step(now, block).take {
            let now = now.free_share();
            return Some(format!(
                "{} free: now {now} is free, and nothing here can free more",
                self.free
            ));
        }
        if now.whole + block <= whole {
            let (now, goal) =
                (Share::part(now.whole, now.managed), Share::part(whole, now.managed));
            return Some(format!("{goal} of memory free in whole pageblocks: now {now} is"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 512;

    fn goal(free: &str, spread: &str) -> Goal {
        let share = |text: &str| text.parse().unwrap();
        Goal { free: share(free), unmovable: Share(0), spread: share(spread) }
    }

    #[test]
    fn shares_are_percent_or_fractions() {
        for (text, hundredths) in
            [("30%", 3000), ("0.3", 3000), ("30 %", 3000), ("0", 0), ("1", WHOLE), ("0.05%", 5)]
        {
            assert_eq!(text.parse(), Ok(Share(hundredths)), "{text}");
        }
        for text in ["30", "-1%", "101%", "", "%", "NaN", "x", "inf"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
        assert_eq!(Share(3056).to_string(), "30.5 %");
        assert_eq!(Share::part(1, 0), Share(0));
    }

    #[test]
    fn a_step_ends_at_the_goal() {
        let now = Spread { managed: 1_000_000, whole: 600_064, scattered: 20_000 };
        let step = goal("30%", "80%").step(&now, BLOCK);
        let whole = now.whole - step.take * BLOCK;
        let scattered = now.scattered + step.release;
        assert!(whole.abs_diff(60_000) < BLOCK);
        assert_eq!((scattered, step.give, step.fill), (240_000, 0, 0));
        assert!(step.release < step.take * BLOCK, "each block that is taken keeps a page");
        let there = Spread { whole, scattered, ..now };
        assert_eq!(goal("30%", "80%").step(&there, BLOCK), Step::default());
        // Compaction gathered a part of it.
        let gathered =
            Spread { whole: whole + 100 * BLOCK, scattered: scattered - 100 * BLOCK, ..now };
        let back = goal("30%", "80%").step(&gathered, BLOCK);
        assert_eq!((back.take, back.release), (100, 100 * BLOCK));
        // Others took some of it.
        let taken = Spread { whole: whole - 10 * BLOCK, scattered: scattered + 7, ..now };
        let back = goal("30%", "80%").step(&taken, BLOCK);
        assert_eq!((back.give, back.fill), (9, 7));
    }

    #[test]
    fn shares_are_what_each_can_spare() {
        assert_eq!(share_out(&[10, 0, 20, 10], 8), [2, 0, 4, 2]);
        assert_eq!(share_out(&[1, 1, 1], 2).iter().sum::<u64>(), 2);
        assert_eq!(share_out(&[3, 0, 4], 100), [3, 0, 4]);
        assert_eq!(share_out(&[0], 5), [0]);
    }

    #[test]
    fn what_cannot_be_reached_is_said() {
        let now = Spread { managed: 1_000_000, whole: 100_000, scattered: 200_000 };
        let why = |free, spread| goal(free, spread).obstacle(&now, BLOCK, 20_000);
        assert_eq!(why("29.9%", "70%"), None);
        assert!(why("1%", "0").unwrap().contains("below 2.0 % this kernel reclaims"));
        assert!(why("40%", "0.5").unwrap().contains("now 30.0 % is free"));
        assert!(
            why("30%", "0.1")
                .unwrap()
                .starts_with("27.0 % of memory free in whole pageblocks: now 10.0 % is")
        );
        // All of it scattered: each pageblock that is taken for that keeps a page.
        assert!(why("30%", "1").unwrap().contains("now 30.0 % is free"));
        assert_eq!(why("29.9%", "1"), None);
    }
}
