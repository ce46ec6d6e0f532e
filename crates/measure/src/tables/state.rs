//! The state of a machine at the end, as bug reports list it: memory, free blocks by type and order, pageblocks by
//! type, counters.

use serde::Serialize;

use crate::run::Run;
use crate::run::policies::origins;
use crate::run::tables::{StateSpec, TypeName};
use crate::statistics::stats;
use crate::value::names;

/// The states under each policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct States {
    /// The zone's name.
    pub zone: String,
    /// The types, in the kernel's order.
    pub types: Vec<TypeName>,
    /// The state under each policy.
    pub states: Vec<State>,
}

/// The state under a policy: means over the seeds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct State {
    /// The policy.
    pub policy: String,
    /// Where its runs come from: `simulated`.
    pub origin: String,
    /// `MemFree` in kB.
    pub mem_free_kb: f64,
    /// `Cached` in kB.
    pub cached_kb: f64,
    /// Free blocks of each type, by order.
    pub free_blocks: Vec<Vec<f64>>,
    /// Pageblocks of each type.
    pub blocks: Vec<f64>,
    /// The counters by name.
    pub counters: Vec<(String, f64)>,
}

impl StateSpec {
    pub(super) fn table(&self, policies: &[Vec<&Run>]) -> Option<States> {
        let states: Vec<State> = policies.iter().filter_map(|runs| self.state(runs)).collect();
        let (zone, types) = (self.zone.clone(), self.types.clone());
        (!states.is_empty()).then_some(States { zone, types, states })
    }

    fn state(&self, runs: &[&Run]) -> Option<State> {
        let mean = |read: &dyn Fn(&Run) -> Option<u64>| {
            let values: Option<Vec<f64>> =
                runs.iter().map(|run| read(run).map(|n| n as f64)).collect();
            values.map(|values| stats::amean(&values))
        };
        let counter = |name: &str| mean(&|run| run.counters.get(name));
        // A counter by order ends with the largest order that stalled.
        let counted = |name: &String| (name.clone(), counter(name).unwrap_or(0.0));
        let free = |mt: &TypeName| {
            let orders = 0..=self.max_order;
            orders.map(|order| counter(&names::free_blocks(mt.0, order))).collect::<Option<_>>()
        };
        let blocks = |mt: &TypeName| mean(&|run| run.blocks_by_type.as_ref().map(|b| b[mt.0]));
        Some(State {
            policy: runs.first()?.policy.clone(),
            origin: origins(runs.iter().copied()),
            mem_free_kb: counter("mem_free_kb")?,
            cached_kb: counter("cached_kb")?,
            free_blocks: self.types.iter().map(free).collect::<Option<_>>()?,
            blocks: self.types.iter().map(blocks).collect::<Option<_>>()?,
            counters: self.counters.iter().map(counted).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use pageblock::mobility::Migratetype;

    use super::*;
    use crate::value::blocks::TypeCounts;

    #[test]
    fn a_state_is_the_mean_of_its_runs() {
        let spec = StateSpec {
            zone: "DMA".into(),
            types: [Migratetype::Unmovable, Migratetype::Reclaimable, Migratetype::Movable]
                .map(TypeName)
                .into(),
            max_order: 4,
            counters: vec!["allocstall_order_2".into()],
        };
        let run = |seed, free| {
            let mut run = Run { policy: "linux-3.10".into(), seed, ..Run::default() };
            for mt in &spec.types {
                for order in 0..=4 {
                    run.counters.set(names::free_blocks(mt.0, order), free + u64::from(order));
                }
            }
            run.counters.set("mem_free_kb", 10 * free);
            run.counters.set("cached_kb", 7);
            run.counters.set("allocstall_order_2", free);
            let mut blocks = TypeCounts::default();
            blocks[Migratetype::Movable] = free;
            run.blocks_by_type = Some(blocks);
            run
        };
        let runs = [run(1, 2), run(2, 4)];
        let states = spec.table(&[runs.iter().collect()]).unwrap().states;
        assert_eq!(states.len(), 1);
        assert_eq!((states[0].mem_free_kb, states[0].cached_kb), (30.0, 7.0));
        assert_eq!(states[0].free_blocks[1], [3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!(states[0].blocks, [0.0, 0.0, 3.0]);
        assert!(states[0].counters.contains(&("allocstall_order_2".into(), 3.0)));
        assert!(spec.table(&[vec![&Run::default()]]).is_none());
        assert!(TypeName::try_from("Movables".to_owned()).is_err());
    }
}
