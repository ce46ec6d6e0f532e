//! `pageblock policy list | show | diff | try | new`.

mod beside;
mod new;

use pageblock::policy::Value;
use pageblock_kernel::preset::PRESETS;
use pageblock_kernel::{Named, Switch, file, own, proposals};
use pageblock_plan::NamedPolicy;
use pageblock_report::json::to_json;
use pageblock_report::table::Table;
use serde_json::{Map, json};

use crate::Verdict;
use crate::args::PolicyCommand;
use crate::output::print;
use crate::plan::Format;

pub(crate) fn run(command: PolicyCommand) -> anyhow::Result<Verdict> {
    let parse = |argument: &str| anyhow::Ok(NamedPolicy::parse(argument)?.kernel);
    let text = match command {
        PolicyCommand::Try(args) => return beside::run(&args),
        PolicyCommand::New(args) => {
            new::run(&args)?;
            return Ok(Verdict::Yes);
        }
        PolicyCommand::List { json } => list(Format::new(json)),
        PolicyCommand::Show { policy, toml: true, .. } => file::print(&parse(&policy)?),
        PolicyCommand::Show { policy, json, .. } => show(&parse(&policy)?, Format::new(json)),
        PolicyCommand::Diff { a, b, json } => diff(&parse(&a)?, &parse(&b)?, Format::new(json)),
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
    let mut text = table.print();
    let mut table = Table::new().text("proposal, in simulations").text("what it decides");
    for own in proposals::ALL {
        table.row([&*format!("{}={}", own::KEY, own.name), own.summary]);
    }
    text += &format!("\n{}", table.print());
    if !own::all().is_empty() {
        let mut table = Table::new().text("policy of this program").text("what it decides");
        for own in own::all() {
            table.row([&*format!("{}={}", own::KEY, own.name), own.summary]);
        }
        text += &format!("\n{}", table.print());
    }
    text
}

fn show(named: &Named, format: Format) -> String {
    if format == Format::Json {
        let mut switches: Map<_, _> = Switch::all()
            .map(|s| (s.name().to_owned(), json_value(s.get(&named.kernel))))
            .collect();
        if let Some(own) = named.own {
            switches.insert(own::KEY.to_owned(), own.name.into());
        }
        return to_json(&json!({
            "policy": named.label,
            "base": named.base.name,
            "switches": switches,
        }));
    }
    let mut text = format!("{}: {}\n", named.label, named.base.summary);
    if let Some(own) = named.own {
        text += &format!("{}={}: {}\n", own::KEY, own.name, own.summary);
    }
    for (group, switches) in by_group(Switch::all()) {
        let mut table = Table::new().text("switch").text("value");
        table = table.text("what it decides; below, what the value does and since when");
        for switch in switches {
            let value = switch.get(&named.kernel);
            table.row([switch.name(), &value.to_string(), summary(switch)]);
            let since = switch.since(value);
            if !since.is_empty() {
                table.row(["", "", &format!("  {}", sentence(&since))]);
            }
        }
        text += &format!("\n{group}\n{}", table.print());
    }
    text
}

fn diff(a: &Named, b: &Named, format: Format) -> String {
    let changed: Vec<_> = a.kernel.diff(&b.kernel).collect();
    let [decider_a, decider_b] = [a, b].map(|of| of.own.map_or("linux", |own| own.name));
    let decide = (decider_a != decider_b).then_some(own::KEY);
    if format == Format::Json {
        let decide = decide.map(
            |key| json!({"switch": key, "group": key, "a": decider_a, "b": decider_b, "since": ""}),
        );
        let rows = changed.iter().map(|&(switch, of_a, of_b)| {
            json!({
                "switch": switch.name(),
                "group": switch.group().name,
                "a": json_value(of_a),
                "b": json_value(of_b),
                "since": switch.since(of_b),
            })
        });
        return to_json(&json!({
            "a": a.label,
            "b": b.label,
            "switches": decide.into_iter().chain(rows).collect::<Vec<_>>(),
        }));
    }
    let mut text = String::new();
    if let Some(key) = decide {
        let mut table = Table::new().text("policy").text(&a.label).text(&b.label);
        table.row([key, decider_a, decider_b]);
        text += &table.print();
    }
    if changed.is_empty() && text.is_empty() {
        return format!("{} and {} have the same switches\n", a.label, b.label);
    }
    if changed.is_empty() {
        return text;
    }
    for (group, switches) in by_group(changed.iter().map(|&(switch, ..)| switch)) {
        let mut table = Table::new().text("switch").text(&a.label).text(&b.label);
        table = table.text("what it decides");
        for switch in switches {
            let (of_a, of_b) = (switch.get(&a.kernel), switch.get(&b.kernel));
            table.row([switch.name(), &of_a.to_string(), &of_b.to_string(), summary(switch)]);
        }
        text += &format!("{}{group}\n{}", if text.is_empty() { "" } else { "\n" }, table.print());
    }
    let mut table = Table::new().text("switch").text(&format!("what {} does", b.label));
    for &(switch, _, of_b) in &changed {
        let since = switch.since(of_b);
        if !since.is_empty() {
            table.row([switch.name(), sentence(&since)]);
        }
    }
    format!("{text}\n{}", table.print())
}

/// Returns the switches of each group, with the group's heading.
fn by_group(switches: impl Iterator<Item = Switch>) -> Vec<(String, Vec<Switch>)> {
    let mut groups: Vec<(String, Vec<Switch>)> = Vec::new();
    for switch in switches {
        let group = format!("{}: {}", switch.group().name, switch.group().summary);
        match groups.last_mut() {
            Some((last, of_group)) if *last == group => of_group.push(switch),
            _ => groups.push((group, vec![switch])),
        }
    }
    groups
}

fn summary(switch: Switch) -> &'static str {
    sentence(switch.about().summary())
}

/// A sentence in a table.
fn sentence(text: &str) -> &str {
    text.trim_end_matches('.')
}

fn json_value(value: Value) -> serde_json::Value {
    match value {
        Value::Name(name) => name.into(),
        Value::Number(number) => number.into(),
    }
}
