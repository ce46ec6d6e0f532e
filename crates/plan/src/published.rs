//! The published tables included in the program.

use std::sync::LazyLock;

use pageblock_measure::compare::published::{Published, Table};

use crate::error::{Result, bail};

/// The published tables of each series.
const FILES: &[(&str, &str)] = &[
    ("fragmentation-avoidance.toml", include_str!("../published/fragmentation-avoidance.toml")),
    ("high-order-pcp-lists.toml", include_str!("../published/high-order-pcp-lists.toml")),
    ("fair-zones.toml", include_str!("../published/fair-zones.toml")),
    ("freelist-hygiene.toml", include_str!("../published/freelist-hygiene.toml")),
    ("sparing-orders-2-and-3.toml", include_str!("../published/sparing-orders-2-and-3.toml")),
    ("huge-blocks-after-builds.toml", include_str!("../published/huge-blocks-after-builds.toml")),
];

static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
    let tables = FILES.iter().flat_map(|(name, text)| match toml::from_str::<Published>(text) {
        Ok(published) => published.tables,
        Err(error) => panic!("{name}: {error}"),
    });
    tables.collect()
});

/// Finds the table of a workload on a machine of any scale.
#[must_use]
pub fn find(workload: &str, machine: &str) -> Option<&'static Table> {
    let (machine, _) = machine.split_once(" at ").unwrap_or((machine, ""));
    TABLES.iter().find(|table| table.workload == workload && table.machine == machine)
}

/// Checks that every column of a table has a policy.
///
/// # Errors
/// Names those that are missing.
pub fn check_policies<'p>(table: &Table, policies: impl Iterator<Item = &'p str>) -> Result<()> {
    let given: Vec<&str> = policies.collect();
    let missing: Vec<&str> =
        table.policies.iter().map(String::as_str).filter(|p| !given.contains(p)).collect();
    if !missing.is_empty() {
        bail!("--published: the table needs runs under {}", missing.join(" and "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pageblock_simulate::sim::machine_file::Scale;
    use pageblock_simulate::workload;

    use super::*;
    use crate::machines;
    use crate::policy::NamedPolicy;

    #[test]
    fn every_table_names_what_exists() {
        for table in TABLES.iter() {
            assert!(workload::find(&table.workload).is_some(), "{}", table.workload);
            machines::load(&table.machine, Scale::WHOLE).unwrap();
            for policy in &table.policies {
                NamedPolicy::parse(policy).unwrap();
            }
            for row in &table.rows {
                assert_eq!(row.published.len(), table.policies.len(), "{}", row.label);
            }
        }
    }
}
