//! Events that the recorder lost: how many on which CPU, and the first event from which the stream has gaps.

use std::collections::BTreeMap;

use crate::record::event::Record;

/// Lost events by CPU; under `None` those for which the file does not say the CPU.
pub type LostByCpu = BTreeMap<Option<u16>, u64>;

/// The losses of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// Lost events by CPU, for CPUs that lost some.
    pub by_cpu: LostByCpu,
    /// Recorded events of the CPUs in `by_cpu`; under `None` all recorded events.
    pub recorded: LostByCpu,
    /// The first event that a loss may precede: the state is known only before it. `None` if nothing was lost.
    pub first_event: Option<u64>,
}

impl Losses {
    /// Returns the number of lost events.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_cpu.values().fold(0, |sum, &lost| sum.saturating_add(lost))
    }

    /// Formats the losses for [`Losses::parse`].
    pub(crate) fn text(&self) -> String {
        let cpu = |cpu: &Option<u16>| cpu.map_or("-".to_owned(), |cpu| cpu.to_string());
        let of = |(at, lost): (&Option<u16>, &u64)| {
            let recorded = self.recorded.get(at).copied().unwrap_or(0);
            format!(" {}:{lost}:{recorded}", cpu(at))
        };
        let first = self.first_event.map_or("-".to_owned(), |event| event.to_string());
        first + &self.by_cpu.iter().map(of).collect::<String>()
    }

    /// Reads what [`Losses::text`] wrote; `None` for any other text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let first_event = match words.next()? {
            "-" => None,
            number => Some(number.parse().ok()?),
        };
        let mut losses = Self { first_event, ..Self::default() };
        for word in words {
            let (cpu, counts) = word.split_once(':')?;
            let cpu = if cpu == "-" { None } else { Some(cpu.parse().ok()?) };
            let (lost, recorded) = counts.split_once(':')?;
            losses.by_cpu.insert(cpu, lost.parse().ok()?);
            losses.recorded.insert(cpu, recorded.parse().ok()?);
        }
        Some(losses)
    }
}

/// Finds the positions of losses in a stream of events.
#[derive(Default)]
pub(crate) struct LossFinder {
    events: u64,
    /// The losses up to the previous event.
    lost: u64,
    first_event: Option<u64>,
    /// For each CPU its recorded events, and the index after its last event.
    cpus: Vec<(u64, u64)>,
}

impl LossFinder {
    /// Takes the next event; `lost` is the number of events known to be lost so far. A loss is noticed no later
    /// than with the next event on the same CPU.
    pub(crate) fn push(&mut self, record: &Record, lost: u64, by_cpu: impl Fn() -> LostByCpu) {
        debug_assert!(lost >= self.lost, "{lost} events lost after {}", self.lost);
        if lost != self.lost {
            self.lost = lost;
            if self.first_event.is_none() {
                self.first_event = Some(self.gap(&by_cpu()));
            }
        }
        let cpu = usize::from(record.cpu);
        if cpu >= self.cpus.len() {
            self.cpus.resize(cpu + 1, (0, 0));
        }
        self.events += 1;
        self.cpus[cpu] = (self.cpus[cpu].0 + 1, self.events);
    }

    /// Returns the earliest event that may follow a loss on one of these CPUs.
    fn gap(&self, lost: &LostByCpu) -> u64 {
        let of_cpu = |cpu: u16| self.cpus.get(usize::from(cpu)).map_or(0, |&(_, next)| next);
        let any = || self.cpus.iter().map(|&(_, next)| next).min().unwrap_or(0);
        lost.keys().map(|cpu| cpu.map_or_else(any, of_cpu)).min().unwrap_or(0)
    }

    /// Returns the losses, after the last event. `unplaced` has further losses, not in `by_cpu`, whose
    /// positions the file does not say: any event may follow them.
    pub(crate) fn finish(self, by_cpu: LostByCpu, unplaced: &LostByCpu) -> Losses {
        debug_assert_eq!(
            self.cpus.iter().map(|&(events, _)| events).sum::<u64>(),
            self.events,
            "an event is of no CPU, or of two"
        );
        let at_the_end = by_cpu.values().sum::<u64>() != self.lost;
        let mut first_event = self.first_event.or_else(|| at_the_end.then(|| self.gap(&by_cpu)));
        let mut losses = by_cpu;
        for (&cpu, &lost) in unplaced {
            *losses.entry(cpu).or_default() += lost;
            first_event = Some(0);
        }
        losses.retain(|_, lost| *lost > 0);
        let recorded = |cpu: Option<u16>| {
            let of_cpu =
                |cpu: u16| self.cpus.get(usize::from(cpu)).map_or(0, |&(events, _)| events);
            cpu.map_or(self.events, of_cpu)
        };
        let recorded = losses.keys().map(|&cpu| (cpu, recorded(cpu))).collect();
        Losses { by_cpu: losses, recorded, first_event }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::event::What;

    fn event(cpu: u16) -> Record {
        Record { t_us: 0, cpu, pid: 1, what: What::Marker("S0".into()) }
    }

    #[test]
    fn a_gap_begins_after_the_last_event_of_its_cpu() {
        let mut finder = LossFinder::default();
        for cpu in [0, 1, 1, 1] {
            finder.push(&event(cpu), 0, LostByCpu::new);
        }
        let lost = LostByCpu::from([(Some(0), 7)]);
        finder.push(&event(0), 7, || lost.clone());
        let losses = finder.finish(lost.clone(), &LostByCpu::new());
        assert_eq!((losses.first_event, losses.total()), (Some(1), 7));
        assert_eq!(losses.recorded, LostByCpu::from([(Some(0), 2)]));
        assert_eq!(Losses::parse(&losses.text()), Some(losses));
    }

    #[test]
    fn nothing_is_known_before_a_loss_without_a_position() {
        let mut finder = LossFinder::default();
        (0..3).for_each(|_| finder.push(&event(2), 0, LostByCpu::new));
        let losses = finder.finish(LostByCpu::new(), &LostByCpu::from([(None, 5)]));
        assert_eq!(losses.first_event, Some(0));
        assert_eq!(losses.text(), "0 -:5:3");
        assert_eq!(Losses::parse("-"), Some(Losses::default()));
        assert_eq!(Losses::parse("0 x:5:3"), None);
    }
}
