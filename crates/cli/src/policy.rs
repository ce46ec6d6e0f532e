//! `pageblock policy list | show | diff`.

use pageblock::policy::{SWITCHES, Switch, Value};
use pageblock::preset::PRESETS;
use pageblock_lab::policy_file;
use pageblock_report::json::to_json;
use pageblock_report::table::Table;
use serde_json::{Map, json};

use crate::Verdict;
use crate::args::PolicyCommand;
use crate::output::print;
use crate::plan::{Format, NamedPolicy};

pub(crate) fn run(command: PolicyCommand) -> anyhow::Result<Verdict> {
    let text = match command {
        PolicyCommand::List { json } => list(Format::new(json)),
        PolicyCommand::Show { policy, toml: true, .. } => {
            let named = NamedPolicy::parse(&policy)?;
            policy_file::print(named.base, &named.policy)
        }
        PolicyCommand::Show { policy, json, .. } => {
            show(&NamedPolicy::parse(&policy)?, Format::new(json))
        }
        PolicyCommand::Diff { a, b, json } => {
            diff(&NamedPolicy::parse(&a)?, &NamedPolicy::parse(&b)?, Format::new(json))
        }
    };
    print(&text)?;
    Ok(Verdict::Yes)
}

fn list(format: Format) -> String {
    if format == Format::Json {
        let rows = PRESETS.iter().map(|p| json!({ "name": p.name, "summary": p.summary }));
        return to_json(&rows.collect::<Vec<_>>());
    }
    let mut table = Table::new().text("policy").text("what distinguishes it");
    for preset in PRESETS {
        table.row([preset.name, preset.summary]);
    }
    table.print()
}

fn show(named: &NamedPolicy, format: Format) -> String {
    if format == Format::Json {
        let switches: Map<_, _> = SWITCHES
            .iter()
            .map(|s| (s.name.to_owned(), json_value(s.get(&named.policy))))
            .collect();
        return to_json(&json!({
            "policy": named.name,
            "base": named.base.name,
            "switches": switches,
        }));
    }
    let mut table = Table::new().text("switch").text("value").text("what it decides");
    for switch in SWITCHES {
        let value = switch.get(&named.policy).to_string();
        table.row([switch.name, &value, summary(switch)]);
    }
    format!("{}: {}\n\n{}", named.name, named.base.summary, table.print())
}

fn diff(a: &NamedPolicy, b: &NamedPolicy, format: Format) -> String {
    let changed = a.policy.diff(&b.policy);
    if format == Format::Json {
        let rows = changed.map(|(switch, of_a, of_b)| {
            json!({ "switch": switch.name, "a": json_value(of_a), "b": json_value(of_b) })
        });
        return to_json(&json!({
            "a": a.name,
            "b": b.name,
            "switches": rows.collect::<Vec<_>>(),
        }));
    }
    let mut table = Table::new().text("switch").text(&a.name).text(&b.name).text("what it decides");
    let mut count = 0;
    for (switch, of_a, of_b) in changed {
        table.row([switch.name, &of_a.to_string(), &of_b.to_string(), summary(switch)]);
        count += 1;
    }
    if count == 0 {
        format!("{} and {} have the same switches\n", a.name, b.name)
    } else {
        table.print()
    }
}

fn summary(switch: &Switch) -> &'static str {
    switch.summary.trim().trim_end_matches('.')
}

fn json_value(value: Value) -> serde_json::Value {
    match value {
        Value::Name(name) => name.into(),
        Value::Number(number) => number.into(),
    }
}
