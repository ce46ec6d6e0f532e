//! Blocks of 1 GiB at the end of a run. The machines of most runs are smaller, and have no value then, not 0.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use super::{Measure, Shown, Unit, Value};
use crate::statistics::stats::Direction;
use crate::value::names;

/// The share of whole gigabytes in which every page is free or can be moved.
pub const MOVABLE: &str = "gigabytes-without-unmovable";
/// The share of whole gigabytes that are wholly free.
pub const FREE: &str = "free-gigabytes";
/// The share of whole gigabytes that could be had as pages at once by moving pages.
pub const SERVED: &str = "gigabytes-served";

/// Returns every measure.
#[must_use]
pub fn measures() -> &'static [Measure] {
    static ALL: LazyLock<[Measure; 3]> = LazyLock::new(|| {
        [
            share(MOVABLE, "Gigabytes without an unmovable page [%]", names::GIGABYTES_MOVABLE),
            share(FREE, "Free gigabytes [%]", names::GIGABYTES_FREE),
            share(SERVED, "Gigabytes to be had by moving pages [%]", names::GIGABYTES_SERVED),
        ]
    });
    &*ALL
}

fn share(id: &'static str, label: &'static str, counter: &'static str) -> Measure {
    Measure {
        id: Cow::Borrowed(id),
        group: Cow::Borrowed(""),
        label: Cow::Borrowed(label),
        unit: Unit::Percent,
        direction: Direction::Higher,
        defined: Cow::Borrowed("aligned blocks of 1 GiB, at the end"),
        part: None,
        counts_events: false,
        shown: Shown::Measured,
        read: Arc::new(move |run| {
            let all = run.counters.get(names::GIGABYTES).filter(|&all| all > 0)?;
            let some = run.counters.get(counter)?;
            Some(Value::Real(some as f64 / all as f64 * 100.0))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;

    #[test]
    fn a_machine_without_whole_gigabytes_has_no_value() {
        let mut run = Run::default();
        let values = |run: &Run| measures().iter().map(|m| m.number(run)).collect::<Vec<_>>();
        assert_eq!(values(&run), [None, None, None]);
        run.counters.set(names::GIGABYTES, 8);
        run.counters.set(names::GIGABYTES_MOVABLE, 6);
        run.counters.set(names::GIGABYTES_FREE, 0);
        run.counters.set(names::GIGABYTES_SERVED, 2);
        assert_eq!(values(&run), [Some(75.0), Some(0.0), Some(25.0)]);
    }
}
