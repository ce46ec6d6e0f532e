//! The keys of `--json`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

/// Keys whose values are objects with arbitrary names: counters, zones, kinds, switches.
const FREE_NAMES: [&str; 17] = [
    "counters",
    "samples",
    "free_blocks",
    "blocks",
    "unusable_free_index",
    "blocks_by_type",
    "mixed_blocks",
    "kinds",
    "switches",
    "daemons",
    "files",
    "by_event",
    "requests",
    "failed",
    "cpus",
    "lost",
    "not_followed",
];

/// The names of documented fields, and of documented variants in snake case, of the types that `--json` prints.
fn documented_fields() -> &'static BTreeSet<String> {
    static FIELDS: OnceLock<BTreeSet<String>> = OnceLock::new();
    FIELDS.get_or_init(|| {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = BTreeSet::new();
        for name in ["bench", "doctor", "measure", "trial"] {
            add_documented_fields(&crates.join(name).join("src"), &mut found);
        }
        assert!(found.len() > 500, "{found:?}");
        found
    })
}

fn add_documented_fields(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("it is a folder of the project") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            add_documented_fields(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("it is text");
        let mut is_documented = false;
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with("#[")) {
            if is_documented && let Some(name) = field_or_variant(line) {
                found.insert(name);
            }
            is_documented = line.starts_with("///");
        }
    }
}

/// Returns the name of the field or variant that a line of Rust declares, in snake case.
fn field_or_variant(line: &str) -> Option<String> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let is_field = rest.starts_with(": ") || rest.starts_with([',', '(']) || rest.starts_with(" {");
    let mut snake = String::new();
    for (at, c) in name.char_indices() {
        if c.is_ascii_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    (is_field && !name.is_empty()).then_some(snake)
}

/// Checks that every key of a `--json` output is a documented field, or in docs/json.md.
#[track_caller]
pub(crate) fn is_documented(json: &serde_json::Value) {
    use serde_json::Value;
    let documented = include_str!("../../../../docs/json.md");
    match json {
        Value::Array(values) => values.iter().for_each(is_documented),
        Value::Object(map) => {
            for (key, value) in map {
                let is_known =
                    documented_fields().contains(key) || documented.contains(&format!("`{key}`"));
                assert!(is_known, "no documented field is `{key}`, and docs/json.md lacks it");
                match value {
                    Value::Object(names) if FREE_NAMES.contains(&key.as_str()) => {
                        // Requests and failures are by type and then by order.
                        let numbers = |value: &Value| {
                            value.as_object().is_some_and(|map| map.values().all(Value::is_u64))
                        };
                        names.values().filter(|value| !numbers(value)).for_each(is_documented);
                    }
                    value => is_documented(value),
                }
            }
        }
        _ => {}
    }
}
