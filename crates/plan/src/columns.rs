//! The columns of the tables that the Python package and `pageblock fleet` give: names that SQL takes without quotes, with a label, a unit
//! and a definition in the metadata of each field. Measures, counters and switches of sweeps have theirs from their own catalogues.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, UInt64Array};
use arrow_schema::{DataType, Field};

/// A column: its name, its unit (empty where it has none), and what it is.
type Column = (&'static str, &'static str, &'static str);

/// Columns that mean the same in every table that has them.
const COMMON: &[Column] = &[
    ("workload", "", "name of the workload"),
    ("kernel", "", "the kernel: a preset with what was set, or a name that the user gave"),
    ("machine", "", "name of the machine"),
    ("scale", "", "scale of machine and workload"),
    ("seed", "", "seed of the run's random numbers"),
    ("origin", "", "simulated, replayed or real"),
    ("event_hash", "", "hash of the run's stream of events: equal runs have equal ones"),
    ("ended", "", "how the run ended before the workload was complete; null where it was"),
    ("resolved_kernel", "", "the preset and every switch, as JSON"),
    ("page_order", "log2 of pages", "order of a block: 2^order pages"),
    ("zone", "", "node and zone, or the zone"),
    ("time_us", "microseconds", "time of the machine"),
    ("switch", "", "name of a switch of the kernel"),
    ("switch_group", "", "the part of the kernel that the switch belongs to"),
    ("decides", "", "what the switch decides"),
    ("since", "", "the version or commit that brought it"),
    ("measure", "", "name of the measure in measures()"),
    ("label", "", "the measure as it is printed"),
    ("unit", "", "unit of the measure"),
    ("confidence", "", "how sure it is"),
    ("low", "share of the baseline", "lower end of the interval of the change"),
    ("high", "share of the baseline", "upper end of the interval of the change"),
    ("p", "", "p of the rank-sum test"),
];

/// The other columns, by table.
const TABLES: &[(&str, &[Column])] = &[
    (
        "events",
        &[
            ("t_us", "microseconds", "the recorder's clock"),
            ("cpu", "", "CPU on which it happened"),
            ("pid", "", "task that ran"),
            ("event", "", "name of the tracepoint; marker, other: docs/recordings.md"),
            (
                "pfn",
                "page frame number",
                "first frame of the block; null: none, or the request failed",
            ),
            ("page_order", "log2 of pages", "order of the block; null: none"),
            ("migratetype", "", "requested type, or that of the list; null: none"),
            ("gfp", "", "flags of mm_page_alloc; null for other events"),
            ("fallback_order", "log2 of pages", "of mm_page_alloc_extfrag; null elsewhere"),
            ("fallback_migratetype", "", "of mm_page_alloc_extfrag; null elsewhere"),
            (
                "change_ownership",
                "",
                "of mm_page_alloc_extfrag: 1 if the pageblock is claimed; null elsewhere",
            ),
            (
                "percpu_refill",
                "",
                "of mm_page_alloc_zone_locked: 1 if the block goes to a CPU list; null elsewhere",
            ),
            (
                "value",
                "",
                "what isolate_free_page returned, pages of alloc_pages_bulk; 0 elsewhere",
            ),
            ("args", "", "arguments of other events as printed, text of a marker; null elsewhere"),
        ],
    ),
    (
        "counters",
        &[
            ("counter", "", "name in /proc/vmstat, or of a tracepoint"),
            ("count", "as the counter counts", "its value over the whole run"),
        ],
    ),
    (
        "samples",
        &[
            ("operation", "", "what the workload measures"),
            ("number", "", "number of the sample, from 0"),
            ("value", "nanoseconds", "the sample; nanoseconds unless the notes say otherwise"),
        ],
    ),
    (
        "free_blocks",
        &[
            ("blocks", "blocks", "free blocks of the order at the end"),
            (
                "unusable",
                "thousandths of free memory",
                "free memory in blocks too small for the order",
            ),
        ],
    ),
    (
        "fallbacks",
        &[
            ("requested", "", "type of the request"),
            ("taken_from", "", "type of the list that served it"),
            ("requested_order", "log2 of pages", "order of the request"),
            ("taken_order", "log2 of pages", "order of the block that was taken"),
            ("change_ownership", "", "whether the pageblock's type changed"),
            ("count", "events", "fallbacks of this kind"),
        ],
    ),
    ("history", &[("blocks", "blocks", "free blocks of the order at the time")]),
    (
        "series",
        &[
            ("series", "", "what the curve shows, with its unit"),
            ("value", "as the series says", "its value at the time"),
        ],
    ),
    (
        "diff",
        &[
            ("a", "", "value of this kernel"),
            ("b", "", "value of the other kernel"),
            ("since", "", "the version or commit that brought the value of the other kernel"),
        ],
    ),
    ("switches", &[("allowed", "", "values that it takes")]),
    (
        "workloads",
        &[
            ("summary", "", "what it does"),
            ("machine", "", "the machine that it was published for"),
        ],
    ),
    (
        "measures",
        &[
            ("column_name", "", "name of its column in a table of runs"),
            ("better", "", "lower or higher"),
            ("defined", "", "where it is defined, or the counters that it is made from"),
        ],
    ),
    (
        "comparison",
        &[
            ("column_name", "", "name of the measure's column in a table of runs"),
            ("direction", "", "lower or higher is better"),
            ("is_primary", "", "whether the workload names the measure as one that decides"),
            ("baseline", "", "the kernel that it is compared with"),
            ("runs", "runs", "runs of the kernel"),
            ("mean", "unit of the measure", "mean over the runs"),
            ("least", "unit of the measure", "smallest value"),
            ("most", "unit of the measure", "largest value"),
            ("change", "share of the baseline", "change of the median; null for the baseline"),
            ("p", "", "p of the rank-sum test; adjusted for measures that are not primary"),
            ("level", "", "the p that decides a primary measure"),
            ("verdict", "", "better, worse, unchanged, undecided, identical, open"),
            (
                "supported",
                "",
                "what the recording supports: yes, large changes, no, none recorded, rare, unknown",
            ),
            ("margin", "share", "the replay's own error"),
            ("least_ratio", "ratio", "ratio that a change in a replay exceeds to be marked"),
            ("grade", "", "grade of the recording"),
        ],
    ),
    (
        "bisection",
        &[
            ("switch", "", "the switch with its value"),
            ("base", "unit of the measure", "mean under the first kernel"),
            ("added", "unit of the measure", "what the switch adds in the order of versions"),
            ("low", "unit of the measure", "lower end of the interval of what is added"),
            ("high", "unit of the measure", "upper end of the interval of what is added"),
            ("alone", "unit of the measure", "what it does alone on the first kernel"),
            (
                "lost_without",
                "unit of the measure",
                "what is lost when it is left out of the second kernel",
            ),
            ("decided", "", "whether what it adds is told apart from chance"),
            ("inert", "", "whether it changes no event"),
            ("interacts", "", "whether its effect depends on the other switches"),
        ],
    ),
    (
        "verification",
        &[
            ("decision", "", "kind of decision"),
            ("cases", "decisions", "decisions of the recording"),
            ("shape", "decisions", "those with the recorded shape"),
            ("exact", "decisions", "those that are exactly the recorded ones"),
        ],
    ),
    (
        "statistics",
        &[("event", "", "name of the event"), ("count", "events", "events of this name")],
    ),
    (
        "explanations",
        &[
            ("line", "", "line of the log"),
            ("kind", "", "kind of report"),
            ("task", "", "task that asked"),
            ("page_order", "log2 of pages", "order of the request"),
            ("class", "", "why it failed: docs/explain.md"),
            ("helps", "", "the first advice"),
        ],
    ),
    (
        "findings",
        &[
            ("name", "", "name of the finding"),
            ("severity", "", "notice, warning, critical"),
            ("symptom", "", "what is seen"),
            ("cause", "", "where it comes from"),
            ("command", "", "the first command against it"),
        ],
    ),
    (
        "forecast",
        &[
            ("blocks", "blocks", "aligned blocks without a hole"),
            ("free", "blocks", "those that are free"),
            ("at_least", "blocks", "free blocks after compaction, at least"),
            ("at_most", "blocks", "free blocks after compaction, at most"),
            ("held", "blocks", "those with a page that does not move"),
        ],
    ),
    (
        "fleet",
        &[
            ("host", "", "name of the host"),
            ("source", "", "what was collected: tree, archive, flight, metrics, log"),
            ("path", "", "the file or folder"),
            ("error", "", "why the host cannot be read"),
            ("missing", "", "what it lacks"),
            ("kernel", "", "version of the kernel as uname prints it"),
            ("kernel_version", "", "its first two numbers"),
            ("fragmented", "", "whether memory is fragmented"),
            ("hurts", "", "whether it hurts"),
            ("severity", "", "that of the worst finding"),
            ("finding", "", "the worst finding"),
            ("findings", "", "all findings, with commas"),
            ("first", "", "the first command against the worst finding"),
            ("class", "", "why most allocations of the log failed: docs/explain.md"),
            ("last_failure", "", "the last failed allocation of the log"),
            ("last_kill", "", "the last OOM kill of the log"),
            ("holder", "", "who has most memory"),
            ("total_mib", "MiB", "memory of the host"),
            ("free_mib", "MiB", "free memory"),
            ("failures", "events", "failed allocations of the log"),
            ("page_order", "log2 of pages", "order of most failed allocations of the log"),
            ("oom_kills", "events", "OOM kills of the log"),
            ("uptime_s", "seconds", "time since boot"),
            (
                "unusable_order_3",
                "share of free memory",
                "free memory in blocks smaller than order 3",
            ),
            (
                "unusable_pageblock",
                "share of free memory",
                "free memory in blocks smaller than a pageblock",
            ),
            (
                "index_pageblock",
                "",
                "largest fragmentation index for a pageblock; null where one is free",
            ),
        ],
    ),
];

/// Returns the field of a column of a table.
#[must_use]
pub fn field(table: &str, name: &str, kind: DataType) -> Field {
    let own = TABLES.iter().find(|(of, _)| *of == table).map_or(&[][..], |(_, columns)| columns);
    let found = own.iter().chain(COMMON).find(|(of, ..)| *of == name);
    debug_assert!(found.is_some(), "column {name} of {table} has no definition");
    let (_, unit, defined) = found.copied().unwrap_or_default();
    let label = name.replace('_', " ");
    described(
        Field::new(name, kind, true),
        [("label", label.as_str()), ("unit", unit), ("defined", defined)],
    )
}

/// Returns a field that says what it is.
pub(crate) fn described<'t>(
    field: Field,
    about: impl IntoIterator<Item = (&'t str, &'t str)>,
) -> Field {
    let about = about.into_iter().filter(|(_, text)| !text.is_empty());
    let about: HashMap<String, String> =
        about.map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
    field.with_metadata(about)
}

/// Returns counts as whole numbers with a sign, so that differences do not wrap; without one if a count does not fit.
pub fn counts(values: impl IntoIterator<Item = Option<u64>>) -> ArrayRef {
    let values: Vec<Option<u64>> = values.into_iter().collect();
    let signed: Option<Vec<Option<i64>>> =
        values.iter().map(|value| value.map(i64::try_from).transpose().ok()).collect();
    match signed {
        Some(signed) => Arc::new(Int64Array::from(signed)),
        None => Arc::new(UInt64Array::from(values)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_a_sign_unless_one_does_not_fit() {
        assert_eq!(counts([Some(3), None]).data_type(), &DataType::Int64);
        assert_eq!(counts([Some(u64::MAX), None]).data_type(), &DataType::UInt64);
    }

    #[test]
    fn no_table_defines_a_column_twice() {
        for (table, columns) in TABLES.iter().chain([&("every table", COMMON)]) {
            for (at, (name, ..)) in columns.iter().enumerate() {
                assert!(columns[..at].iter().all(|(other, ..)| other != name), "{table}: {name}");
            }
        }
    }
}
