use serde_json::Value;

use std::collections::BTreeSet;

use crate::{file, is_documented, prints, refuses};

#[test]
fn list_has_a_line_for_every_policy() {
    let text = prints("policy list");
    assert!(
        text.starts_with("policy            what distinguishes it\nlinux-3.10        "),
        "{text}"
    );
    assert!(text.contains("\nlinux-6.10        freelist hygiene: "));
    let list: Value = serde_json::from_str(&prints("policy list --json")).unwrap();
    is_documented(&list);
    let presets = text.lines().skip(1).take_while(|line| !line.is_empty());
    assert_eq!(list.as_array().unwrap().len(), presets.count());
    assert!(text.contains("\ndecide=superpageblocks  "), "{text}");
    assert_eq!(list[0]["name"], "linux-3.10");
}

#[test]
fn show_has_a_line_for_every_switch() {
    let text = prints("policy show linux-6.12,nofragment=off");
    assert!(text.starts_with("linux-6.12,nofragment=off: "), "{text}");
    let line = |name: &str| {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        text.lines().map(words).find(|words| words.first().is_some_and(|word| word == name))
    };
    assert_eq!(line("nofragment").unwrap()[1], "off");
    assert!(text.contains("\ncompaction: compaction of a zone (mm/compaction.c)\n"), "{text}");
    let json = prints("policy show linux-6.12,nofragment=off --json");
    let json: Value = serde_json::from_str(&json).unwrap();
    is_documented(&json);
    assert_eq!(json["base"], "linux-6.12");
    assert_eq!(json["switches"]["nofragment"], "off");
    assert_eq!(json["switches"]["watermark_boost_factor"], 15_000);
    let switches = json["switches"].as_object().unwrap();
    assert!(switches.len() > 40, "{switches:?}");
    for (name, value) in switches {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let words = line(name).unwrap();
        assert_eq!(words[1], value, "{name}");
        assert!(words.len() > 2, "{name} is not explained: {words:?}");
    }
}

#[test]
fn diff_has_a_line_for_every_change() {
    let text = prints("policy diff linux-4.20 linux-5.0");
    let names = ["boost", "slab_min_scan", "cached_inodes", "multi_queue", "thp_placement"];
    let lines = || text.lines().filter_map(|line| line.split_whitespace().next());
    assert_eq!(lines().filter(|word| names.contains(word)).collect::<Vec<_>>(), names.repeat(2));
    // A rule of the shrinkers, and the commit that reverted it.
    assert!(text.contains("172b06c32b94, reverted for 5.0 by a9a238e83fbb"), "{text}");
    let json: Value =
        serde_json::from_str(&prints("policy diff linux-4.20 linux-5.0 --json")).unwrap();
    is_documented(&json);
    assert_eq!(json["switches"][0]["switch"], "boost");
    assert_eq!(json["switches"][0]["b"], "every_zone");
    assert_eq!(
        prints("policy diff linux-6.12 linux-6.13"),
        "linux-6.12 and linux-6.13 have the same switches\n"
    );
}

#[test]
fn who_decides_in_linuxs_place_is_shown() {
    let name = "linux-7.3,decide=superpageblocks";
    let text = prints(&format!("policy diff linux-7.3 {name}"));
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.ends_with("decide  linux      superpageblocks\n"), "{text}");
    let of = |command: &str| -> Value { serde_json::from_str(&prints(command)).unwrap() };
    let json = of(&format!("policy diff {name} linux-7.2 --json"));
    is_documented(&json);
    assert_eq!(json["switches"][0]["a"], "superpageblocks");
    assert_eq!(json["switches"][0]["b"], "linux");
    assert!(json["switches"].as_array().unwrap().len() > 1);
    assert_eq!(of(&format!("policy show {name} --json"))["switches"]["decide"], "superpageblocks");
    assert!(prints(&format!("policy show {name}")).contains("\ndecide=superpageblocks: movable"));
    // It decides: another run than Linux's, and the same each time.
    let hash = |policy: &str| {
        let run = format!("run hugealloc-short --policy {policy} --scale 1/64 --seeds 1 --json");
        of(&run)[0]["event_hash"].clone()
    };
    assert!(hash(name).is_string());
    assert_ne!(hash(name), hash("linux-7.3"));
    assert_eq!(hash(name), hash("linux-7.3,decide=superpageblocks-bitmap"));
}

/// Each proposal decides other runs than Linux and the others, and none of its answers is refused.
#[test]
fn every_proposal_decides() {
    let mut seen = BTreeSet::new();
    for name in ["", "owners", "lifetimes", "boundary", "trees", "unmapped"] {
        let name = if name.is_empty() { String::new() } else { format!(",decide={name}") };
        let run =
            format!("run hugealloc-short --policy linux-7.3{name} --scale 1/64 --seeds 1 --json");
        let run = &serde_json::from_str::<Value>(&prints(&run)).unwrap()[0];
        assert!(seen.insert(run["event_hash"].as_str().unwrap().to_owned()), "{name}");
        let notes = run["notes"].to_string();
        assert!(!notes.contains("refused") && !notes.contains("possible"), "{notes}");
    }
}

#[test]
fn what_a_value_does_and_since_when_stands_below_it() {
    let text = prints("policy show linux-5.0");
    let below = |start: &str| {
        let mut lines = text.lines().skip_while(|line| !line.starts_with(start));
        lines.nth(1).expect(start)
    };
    assert!(below("boost ").ends_with("  5.0 to 5.6: in every zone"), "{text}");
    assert!(below("hopeless_nodes ").ends_with("  From 4.12 (c73322d098e4)"), "{text}");
    // It fits a wide terminal.
    assert!(text.lines().all(|line| line.chars().count() <= 180), "{text}");
    let toml = prints("policy show linux-5.0 --toml");
    for line in [
        "#   off              Up to 4.20.",
        "#   every_zone       5.0 to 5.6: in every zone.",
        "# boost = \"every_zone\"",
    ] {
        assert!(toml.lines().any(|other| other == line), "{line}: {toml}");
    }
    let json = prints("policy diff linux-4.20 linux-5.0 --json");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["switches"][3]["since"], "From 5.0 (a1ce35fa4985).");
}

#[test]
fn an_error_quotes_the_start_of_a_long_policy_only() {
    let json: Value = serde_json::from_str(&prints("policy show linux-6.9 --json")).unwrap();
    let mut policy = "linux-6.9".to_owned();
    for (name, value) in json["switches"].as_object().unwrap() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let value = if name == "min_free_kbytes" { "4000000" } else { &value };
        policy += &format!(",{name}={value}");
    }
    assert!(policy.len() > 3000);
    let switches = policy.matches('=').count();
    let start =
        format!("error: --policy linux-6.9,... ({switches} switches): min_free_kbytes=4000000: ");
    let run = "run netperf-udp --scale 1/64";
    let long = "x".repeat(5000);
    for (arguments, start) in [
        (format!("{run} --policy {policy}"), start),
        (
            format!("{run} --policy linux-6.9 --policy {policy} --policy {policy}"),
            format!("error: --policy 'linux-6.9,... ({switches} switches)' is given twice"),
        ),
        (format!("{run} --policy {long}"), "error: unknown policy 'xxx".to_owned()),
        (format!("{run} --policy linux-6.9,{long}"), "error: 'xxx".to_owned()),
        (format!("{run} --policy linux-6.9,{long}=1"), "error: unknown switch 'xxx".to_owned()),
        (format!("{run} --policy linux-6.9,boost={long}"), "error: switch 'boost' ".to_owned()),
    ] {
        refuses(&arguments, &start);
        let line = crate::pageblock(&arguments).stderr;
        assert!(line.len() < 300, "{} bytes: {line}", line.len());
    }
}

#[test]
fn a_switch_is_set_once() {
    let check = |policy: &str, first: &str, again: &str| {
        refuses(
            &format!("policy show {policy}"),
            &format!("error: '{first}' and '{again}' set the same switch; give it once\n"),
        );
    };
    check("linux-4.20,nofragment=off,nofragment=on", "nofragment=off", "nofragment=on");
    check(
        "linux-4.20,boost=every_zone,nofragment=on,boost=every_zone",
        "boost=every_zone",
        "boost=every_zone",
    );
    // hybrid(3) sets the threshold too.
    let (hybrid, threshold) = ("fallback_pick=hybrid(3)", "hybrid_threshold=4");
    check(&format!("linux-3.10,{hybrid},{threshold}"), hybrid, threshold);
    check(&format!("linux-3.10,{threshold},{hybrid}"), threshold, hybrid);
    refuses(
        "run thpfioscale --scale 1/64 --policy linux-4.20,nofragment=off,nofragment=on",
        "error: 'nofragment=off' and 'nofragment=on' set the same switch",
    );
    let path =
        file("twice.toml", "base = \"linux-4.20\"\nboost = \"every_zone\"\nboost = \"off\"\n");
    refuses(
        &format!("policy show {}", path.display()),
        &format!("error: {}: line 3: ", path.display()),
    );
}

#[test]
fn a_policy_file_is_a_policy() {
    let toml = prints("policy show linux-6.17,skip_active_node=on --toml");
    let path = file("mine.toml", &toml);
    let path = path.display();
    assert_eq!(
        prints(&format!("policy diff linux-6.18 {path}")),
        "linux-6.18 and mine have the same switches\n"
    );
}

#[test]
fn unknown_names_are_answered_with_existing_ones() {
    refuses("policy show linux-9", "error: unknown policy 'linux-9'; the most similar are linux-");
    refuses(
        "policy show linux-5.0,mood=on",
        "error: unknown switch 'mood' (`pageblock policy show NAME` prints every switch)",
    );
    refuses(
        "policy show linux-5.0,boost=on",
        "error: switch 'boost' has no value 'on'; one of off, every_zone, large_zones, wake_if_boosted",
    );
    refuses(
        "policy diff linux-5.0,boost linux-5.0",
        "error: 'boost' is not of the form switch=value",
    );
    refuses("policy show ./none.toml", "error: ./none.toml: cannot read: No such file");
    let path = file("wrong.toml", "base = \"linux-5.0\"\nboost = \"on\"\n");
    let path = path.display();
    let expect = format!("error: {path}: line 2: switch 'boost' has no value 'on'; ");
    refuses(&format!("policy show {path}"), &expect);
}

/// A file of `examples/policies` says in its first lines what it does and who proposed it.
#[test]
fn proposals_are_policies_with_a_source() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/policies");
    let page = include_str!("../../../../docs/policies.md");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect(folder) {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# ") && text.contains("\n# Source: "), "{}", path.display());
        let shown = prints(&format!("policy diff linux-7.3 {}", path.display()));
        let group = ["allocator: ", "kswapd: "].iter().any(|group| shown.starts_with(group));
        assert!(group, "{shown}");
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(page.contains(&format!("`{name}`")), "docs/policies.md has no {name}");
        count += 1;
    }
    assert!(count >= 4);
}
