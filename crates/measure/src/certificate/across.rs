//! How far a what-if of a recording is from what another kernel, or the same with another setting, really records.
//!
//! A recording's own error says how well a replay follows the recorded kernel, and little of a change: of the changes beyond
//! it 38 % had the wrong direction. `docs/what_if.py docs/what-if.json` measures both, from recordings of one load
//! under several kernels and settings that are each replayed under the others.

use super::grades::Loop;
use super::reproduced::Certified;
use super::support::{Part, Support};

/// In what the policy of a what-if differs from the one that it is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhatIf {
    /// In the kernel, or in a rule of it.
    Kernel,
    /// In sysctls of watermarks only.
    Setting,
}

/// The sysctls that the recordings change.
const SETTINGS: [&str; 3] = ["min_free_kbytes", "watermark_boost_factor", "watermark_scale_factor"];

/// The error of a what-if: the root mean square, over pairs of recorded columns, of the difference between the logarithms of the
/// predicted and the recorded ratio. A measure is listed if what-ifs explain half of its recorded changes.
const ERRORS: [(WhatIf, Loop, &str, f64); 3] = [
    (WhatIf::Setting, Loop::Closed, "unmovable-fallbacks", 0.805),
    (WhatIf::Setting, Loop::Closed, "mismatched-pages", 1.119),
    (WhatIf::Setting, Loop::Closed, "mixed-pageblocks", 0.469),
];

/// 95 % of a normal distribution lie below so many deviations.
const DEVIATIONS: f64 = 1.645;

impl WhatIf {
    /// Tells two policies apart by their names, `KERNEL,switch=value,...`.
    #[must_use]
    pub fn between(base: &str, policy: &str) -> Self {
        let parts = |name: &str| name.split(',').map(str::to_owned).collect::<Vec<_>>();
        let (base, policy) = (parts(base), parts(policy));
        let differs = |one: &[String], other: &[String]| -> Vec<String> {
            one[1..].iter().filter(|part| !other[1..].contains(part)).cloned().collect()
        };
        let changed = [differs(&base, &policy), differs(&policy, &base)].concat();
        let is_setting =
            |part: &String| SETTINGS.contains(&part.split('=').next().unwrap_or_default().trim());
        match base[0] == policy[0] && !changed.is_empty() && changed.iter().all(is_setting) {
            true => Self::Setting,
            false => Self::Kernel,
        }
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Setting => "setting",
        }
    }

    /// Returns the ratio that a change of a measure exceeds, in either direction, to be no error of a what-if; `None` where
    /// what-ifs were not shown to be right.
    #[must_use]
    pub fn least_ratio(self, of: Loop, measure: &str) -> Option<f64> {
        let mut errors = ERRORS.into_iter();
        let known = errors.find(|row| (row.0, row.1, row.2) == (self, of, measure))?;
        Some((DEVIATIONS * known.3).exp())
    }
}

/// What a change in a replay exceeds before it is marked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limit {
    /// What the recording supports of the measure; `None` if it is not graded.
    pub support: Option<Support>,
    /// The ratio that is no error of a what-if; `None` where what-ifs were not shown to be right.
    pub least_ratio: Option<f64>,
}

impl Limit {
    /// Returns the limit of a what-if of a recording, for a measure by its name, which is this part of a what-if.
    #[must_use]
    pub fn of(
        what: WhatIf,
        certified: Option<&Certified>,
        (measure, part): (&str, Option<Part>),
    ) -> Self {
        let of_part = |of: &Certified| of.support(part?);
        let taken = certified.and_then(Certified::taken);
        Self {
            support: certified.and_then(of_part),
            least_ratio: taken.and_then(|taken| what.least_ratio(taken, measure)),
        }
    }

    /// Reports whether a change as a share of the base is larger than the replay's own error and the error of what-ifs. What
    /// nothing tests decides nothing.
    #[must_use]
    pub fn is_exceeded(&self, change: f64) -> bool {
        let Some(
            Support::Supported { margin_permyriad } | Support::LargeChanges { margin_permyriad },
        ) = self.support
        else {
            return false;
        };
        let ratio = 1.0 + change;
        change.abs() * 10_000.0 > margin_permyriad as f64
            && self.least_ratio.is_some_and(|least| ratio > least || ratio < 1.0 / least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_differ_in_kernels_or_in_settings() {
        let between = |base, policy| WhatIf::between(base, policy);
        assert_eq!(between("debian-6.12", "debian-7.2"), WhatIf::Kernel);
        let unboosted = "debian-6.12,watermark_boost_factor=0";
        assert_eq!(between("debian-6.12", unboosted), WhatIf::Setting);
        assert_eq!(between(unboosted, "debian-6.12,watermark_boost_factor=30000"), WhatIf::Setting);
        assert_eq!(between(unboosted, "debian-7.2,watermark_boost_factor=0"), WhatIf::Kernel);
        assert_eq!(between("debian-6.12", "debian-6.12,pcp_type=reread"), WhatIf::Kernel);
        let both = "debian-6.12,watermark_boost_factor=0,pcp_type=reread";
        assert_eq!(between("debian-6.12", both), WhatIf::Kernel);
        assert_eq!(between(unboosted, both), WhatIf::Kernel);
    }

    /// The table is that of `docs/what_if.py docs/what-if.json`, which marks nothing else.
    #[test]
    fn limits_are_those_that_were_measured() {
        let least = |what: WhatIf, of, measure| what.least_ratio(of, measure);
        let mixed = least(WhatIf::Setting, Loop::Closed, "mixed-pageblocks").unwrap();
        assert!((2.16..2.17).contains(&mixed), "{mixed}");
        assert_eq!(least(WhatIf::Setting, Loop::Open, "mixed-pageblocks"), None);
        assert_eq!(least(WhatIf::Kernel, Loop::Closed, "mixed-pageblocks"), None);
    }

    #[test]
    fn a_change_exceeds_both_errors() {
        let supported = Some(Support::Supported { margin_permyriad: 1000 });
        let limit = |support, least_ratio| Limit { support, least_ratio };
        let both = limit(supported, Some(2.0));
        assert!(
            both.is_exceeded(1.1) && both.is_exceeded(-0.51) && both.is_exceeded(f64::INFINITY)
        );
        assert!(!both.is_exceeded(0.9) && !both.is_exceeded(-0.49));
        assert!(!limit(supported, Some(1.01)).is_exceeded(0.09));
        assert!(!limit(supported, None).is_exceeded(9.0));
        assert!(!limit(Some(Support::Rare), Some(2.0)).is_exceeded(9.0));
        assert!(!limit(None, Some(2.0)).is_exceeded(9.0));
    }
}
