//! What is known of runs by the names that they have: of kernels, and of workloads.

use std::collections::BTreeMap;

use pageblock_measure::run::tables::Tables;
use pageblock_measure::{EventUnit, Run};
use pageblock_simulate::workload;

use crate::error::Result;
use crate::policy::NamedPolicy;

/// Sets what runs do not say of their kernels and workloads.
pub(crate) fn complete(runs: &mut [Run]) -> Result<()> {
    let mut units: BTreeMap<String, Option<EventUnit>> = BTreeMap::new();
    let mut tables: BTreeMap<String, Option<Tables>> = BTreeMap::new();
    for run in runs {
        if run.extfrag_unit.is_none() {
            if !units.contains_key(&run.policy) {
                // Of a policy file, which may be elsewhere, only the name is known.
                let unit = NamedPolicy::parse(&run.policy).ok();
                units.insert(run.policy.clone(), unit.map(|named| EventUnit::of(&named.policy)));
            }
            run.extfrag_unit = units[&run.policy];
        }
        if run.tables.is_none() {
            if !tables.contains_key(&run.workload) {
                let of = workload::find(&run.workload).map(workload::tables).transpose()?;
                tables.insert(run.workload.clone(), of);
            }
            run.tables.clone_from(&tables[&run.workload]);
        }
    }
    Ok(())
}
