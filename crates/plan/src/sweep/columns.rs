//! The columns of a table of runs: names that SQL takes without quotes; what is printed, the unit and the definition are in the
//! metadata of each field, and where the table comes from in that of the schema.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use arrow_schema::{DataType, Field};
use pageblock::mobility::Migratetype;
use pageblock::policy::Values;
use pageblock_kernel::Switch;
use pageblock_measure::catalogue::{Measure, deciding, primary};
use pageblock_measure::run::tables::Tables;
use pageblock_measure::{Run, statistics::stats::Direction};
use serde_json::json;

use super::Cell;
use crate::columns::described;
use crate::error::{Place, Result};
use crate::own::Loads;
use crate::policy::NamedPolicy;
use crate::program::{build, version};

/// The columns that say what a run is, before its measures.
pub const IDENTITY: [&str; 8] =
    ["workload", "kernel", "machine", "scale", "seed", "event_hash", "ended", "resolved_kernel"];

/// Returns the field of a measure, with its label, its unit, which way is better, and its definition.
#[must_use]
pub fn measure_field(measure: &Measure) -> Field {
    let kind = if measure.unit.is_whole() { DataType::Int64 } else { DataType::Float64 };
    described(
        Field::new(measure.column(), kind, true),
        [
            ("label", measure.full_label().as_str()),
            ("measure", &measure.id),
            ("unit", measure.unit.name()),
            ("better", better(measure.direction)),
            ("defined", &measure.defined),
        ],
    )
}

/// Returns the field of a counter. Its name is in lower case: SQL folds names without quotes.
pub(super) fn counter_field(name: &str) -> Field {
    described(
        Field::new(name.to_ascii_lowercase(), DataType::Int64, true),
        [("label", name), ("unit", "as the counter counts"), ("defined", "a counter of the run")],
    )
}

/// Returns the counter of a column: the names of migratetypes have capitals in it.
pub(super) fn counter_of(column: &str) -> String {
    if let Some([of, b'i', b'n', on]) = column.strip_prefix("type_mismatch_").map(str::as_bytes) {
        let [of, on] = [of, on].map(|letter| char::from(letter.to_ascii_uppercase()));
        return format!("type_mismatch_{of}in{on}");
    }
    for start in ["alloc_pages_", "free_blocks_", "blocks_"] {
        let Some(rest) = column.strip_prefix(start) else { continue };
        let (word, order) = rest.split_at(rest.find("_order_").unwrap_or(rest.len()));
        let types = Migratetype::ALL.into_iter().map(Migratetype::name);
        if let Some(name) = types.into_iter().find(|name| name.to_ascii_lowercase() == word) {
            return format!("{start}{name}{order}");
        }
    }
    column.to_owned()
}

/// Returns the field of a switch that differs by kernel: a number, a truth value, or text.
pub(super) fn switch_field(switch: Switch) -> Field {
    let kind = match switch.about().values {
        Values::Number { .. } => DataType::Int64,
        Values::Choices(_) if switch.is_flag() => DataType::Boolean,
        Values::Choices(_) => DataType::Utf8,
    };
    let about = switch.about();
    described(
        Field::new(switch.name(), kind, true),
        [
            ("label", switch.name()),
            ("defined", about.summary()),
            ("allowed", &about.values.to_string()),
        ],
    )
}

/// Returns the word for which way is better.
#[must_use]
pub const fn better(direction: Direction) -> &'static str {
    match direction {
        Direction::Lower => "lower",
        Direction::Higher => "higher",
        Direction::Neither => "neither",
    }
}

/// Returns the measures of runs with these tables of their workloads: those that decide between kernels, and the workloads' own
/// primary ones.
#[must_use]
pub fn measures_of<'t>(tables: impl IntoIterator<Item = &'t Tables>) -> Vec<Measure> {
    let mut all: Vec<Measure> = deciding::measures().to_vec();
    let mut seen: Vec<&Tables> = Vec::new();
    for of in tables {
        if seen.contains(&of) {
            continue;
        }
        seen.push(of);
        let run = Run { tables: Some(of.clone()), ..Run::default() };
        for measure in primary::measures(&[run]) {
            if all.iter().all(|known| known.id != measure.id) {
                all.push(measure);
            }
        }
    }
    all
}

/// Returns the tables of the workloads of a grid, of each once.
pub(super) fn tables_of(cells: &[Cell], loads: &Loads) -> Result<Vec<Tables>> {
    let names: BTreeSet<&str> = cells.iter().map(|cell| cell.workload.as_str()).collect();
    names.into_iter().map(|name| loads.tables(name)).collect()
}

/// Returns the switches that some kernel of a grid sets, in their order.
pub(super) fn switches_of(cells: &[Cell]) -> Result<Vec<Switch>> {
    let kernels: BTreeSet<&str> = cells.iter().map(|cell| cell.kernel.as_str()).collect();
    let mut set = BTreeSet::new();
    for kernel in kernels {
        let named = NamedPolicy::parse(kernel)?.kernel;
        set.extend(named.set.iter().map(|(switch, _)| switch.name()));
    }
    Ok(Switch::all().filter(|switch| set.contains(switch.name())).collect())
}

/// Returns where a table comes from: the version, the build, the grid, and every kernel whole.
pub(super) fn provenance(grid: &str, cells: &[Cell]) -> Result<HashMap<String, String>> {
    let mut kernels: BTreeMap<&str, serde_json::Value> = BTreeMap::new();
    for Cell { kernel, .. } in cells {
        if !kernels.contains_key(kernel.as_str()) {
            let named = NamedPolicy::parse(kernel).at(|| "kernel")?.kernel;
            let set: BTreeMap<&str, String> = named
                .set
                .iter()
                .map(|(switch, _)| (switch.name(), switch.get(&named.kernel).to_string()))
                .collect();
            kernels.insert(kernel, json!({ "base": named.base.name, "set": set }));
        }
    }
    let entries = [
        ("pageblock.version", version().to_owned()),
        ("pageblock.build", build()),
        ("pageblock.grid", grid.to_owned()),
        ("pageblock.kernels", json!(kernels).to_string()),
    ];
    Ok(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_of_a_counter_names_it() {
        let of_types = Migratetype::ALL.iter().flat_map(|mt| {
            let name = mt.name();
            [
                format!("alloc_pages_{name}"),
                format!("blocks_{name}"),
                format!("free_blocks_{name}_order_10"),
            ]
        });
        let others = ["type_mismatch_UinM", "type_mismatch_pages", "nr_free_cma", "blocks_more"];
        for name in of_types.chain(others.map(str::to_owned)) {
            let field = counter_field(&name);
            assert_eq!(field.metadata()["label"], name);
            assert_eq!(counter_of(field.name()), name);
        }
    }

    #[test]
    fn no_two_columns_of_a_table_have_one_name() {
        let all = pageblock_simulate::workload::ALL.iter();
        let tables: Vec<Tables> =
            all.map(|of| pageblock_simulate::workload::tables(*of).unwrap()).collect();
        let measures = measures_of(&tables);
        let own = measures.iter().map(Measure::column);
        let switches = Switch::all().map(|switch| switch.name().to_owned());
        let mut names: Vec<String> =
            IDENTITY.iter().map(|name| (*name).to_owned()).chain(own).chain(switches).collect();
        assert!(
            names.iter().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        );
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        let of = |column: &str| measures.iter().find(|of| of.column() == column).unwrap();
        let field = measure_field(of("huge_fault_percent"));
        assert_eq!(field.metadata()["label"], "Huge pages on fault [%]");
        assert_eq!(
            (field.metadata()["unit"].as_str(), field.data_type()),
            ("percent", &DataType::Float64)
        );
        assert_eq!(measure_field(of("work_zone_lock_acquired")).data_type(), &DataType::Int64);
        assert_eq!(measure_field(of("latency_p95_ms")).data_type(), &DataType::Float64);
    }
}
