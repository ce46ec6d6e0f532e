//! Policies of one's own: the idea that `pageblock policy new` makes, the package around it, and what programs without
//! one say.

use std::fs;
use std::process::Command;
use std::sync::Arc;

use pageblock::decide::Linux;
use pageblock_cli::Own;
use pageblock_measure::Run;
use pageblock_measure::value::names;
use pageblock_plan::NamedPolicy;
use pageblock_plan::run::{RunPlan, RunRequest, Seeds};
use pageblock_plan::watch::Quiet;

use crate::{Ran, is_documented, ran};

#[path = "../../src/policy/template/idea.rs"]
mod idea;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pageblock"))
}

/// Runs a workload under policies, each once.
fn runs(workload: &str, scale: &str, policies: &[&str]) -> Vec<Run> {
    let policies = policies.iter().map(|policy| NamedPolicy::parse(policy).unwrap()).collect();
    let plan = RunPlan::new(RunRequest {
        workload: workload.to_owned(),
        policies,
        machine: None,
        published: false,
        seeds: Some(Seeds::Fixed(1)),
        first_seed: 1,
        scale: scale.to_owned(),
        jobs: Some(1),
        save: None,
        pictures: false,
    });
    Arc::new(plan.unwrap().jobs).run(&Quiet::default()).unwrap().into_values().collect()
}

/// One that decides nothing is Linux to the last event, under kernels of every kind of fallback; the idea is not, and
/// its looks are counted.
#[test]
fn a_policy_decides_what_it_says_and_nothing_else() {
    let linux = Own { name: "linux", summary: "nothing", make: || Box::new(Linux) };
    let own = Own { name: "idea", summary: idea::SUMMARY, make: || Box::new(idea::Idea) };
    pageblock_kernel::own::register(vec![linux, own]).unwrap();
    for (workload, scale) in [("hugealloc-short", "1/128"), ("netperf-udp", "1/64")] {
        for base in ["linux-3.10", "linux-5.10", "linux-7.3", "linux-7.3,placement=packed"] {
            let decided = [base, &format!("{base},decide=linux"), &format!("{base},decide=idea")];
            let [of_base, of_linux, of_idea] = &runs(workload, scale, &decided)[..] else {
                panic!("three runs")
            };
            assert_eq!(of_linux.event_hash, of_base.event_hash, "{workload} {base}");
            // Builds with debug assertions count movements of blocks, which are taken one by one where each is named.
            let counters = |run: &Run| {
                let all = run.counters.iter().filter(|(name, _)| *name != "list_movements");
                all.map(|(name, count)| (name.to_owned(), count)).collect::<Vec<_>>()
            };
            assert_eq!(counters(of_linux), counters(of_base), "{workload} {base}");
            // Lists of a workload without fragmentation have nothing to choose.
            let asked = workload == "hugealloc-short" && !base.contains("packed");
            assert!(!asked || of_idea.event_hash != of_base.event_hash, "{workload} {base}");
            let looks = |run: &Run| run.counters.get(names::BLOCK_LOOKS).unwrap();
            assert!(!asked || looks(of_idea) > looks(of_base), "{workload} {base}");
            let refused =
                |run: &Run| run.notes.iter().any(|n| format!("{n:?}").contains("possible"));
            assert!(!refused(of_idea), "{workload} {base}: {:?}", of_idea.notes);
            assert_eq!(of_idea.kernel.as_ref().unwrap().switches["decide"], "idea");
        }
    }
    let named = NamedPolicy::parse("linux-7.3,decide=idea").unwrap();
    assert_eq!(
        named.without_own("a replay").unwrap_err().to_string(),
        "a replay takes no decide=idea: it decides in simulations only"
    );
}

#[test]
fn a_program_without_policies_of_its_own_says_how_to_get_one() {
    let Ran { status, stderr, .. } =
        ran(program().args(["run", "netperf-udp", "--policy", "linux-7.3,decide=mine"]));
    assert_eq!(
        (status, stderr.as_str()),
        (
            2,
            "error: there is no policy 'mine' of one's own; there are superpageblocks, superpageblocks-bitmap, owners, \
             lifetimes, boundary, trees, unmapped \
             (`pageblock policy new NAME` makes a program with another)\n"
        )
    );
}

#[test]
fn a_package_is_made_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let new = |name: &str, more: &[&str]| {
        ran(program().current_dir(&folder).args(["policy", "new", name]).args(more))
    };
    let Ran { status, stdout, stderr } = new("mine", &[]);
    assert_eq!((status, stderr.as_str()), (0, ""));
    assert!(stdout.contains("cargo run --release -- policy try linux-7.3,decide=mine"), "{stdout}");
    let read = |path: &str| fs::read_to_string(folder.path().join("mine").join(path)).unwrap();
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    assert_eq!(manifest["package"]["name"].as_str(), Some("mine"));
    for (dependency, at) in [("pageblock", "pageblock"), ("pageblock-cli", "cli")] {
        let path = manifest["dependencies"][dependency]["path"].as_str().unwrap();
        assert!(path.ends_with(&format!("crates/{at}")), "{path}");
        assert!(fs::metadata(path).unwrap().is_dir());
    }
    assert!(
        read("src/main.rs").contains("mod idea;") && read("src/idea.rs").contains("impl Decide")
    );
    assert!(read("Cargo.lock").contains("name = \"pageblock\""));
    let before = fs::read_dir(folder.path()).unwrap().count();
    for (name, more, expect) in [
        ("mine", &[][..], "error: mine cannot be made: "),
        ("Mine", &[], "error: policy name 'Mine': allowed are lower-case letters, digits, "),
        ("../x", &[], "error: policy name '../x': "),
        ("type", &[], "error: policy name 'type': "),
        ("other", &["--source", "."], "error: --source .: there is no crates/cli/Cargo.toml, "),
        ("other", &["--source", "no/such"], "error: --source no/such: "),
    ] {
        let Ran { status, stdout, stderr } = new(name, more);
        assert_eq!((status, stdout.as_str()), (2, ""), "{name}");
        assert!(stderr.starts_with(expect) && stderr.lines().count() == 1, "{stderr}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before);
    }
    let Ran { status, .. } = new("of-git", &["--source", "https://example.org/pageblock"]);
    assert_eq!(status, 0);
    let text = fs::read_to_string(folder.path().join("of-git/Cargo.toml")).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let git = manifest["dependencies"]["pageblock-cli"]["git"].as_str();
    assert_eq!(git, Some("https://example.org/pageblock"));
}

#[test]
fn a_policy_is_tried_beside_its_base() {
    let tried = |more: &[&str]| {
        let small = ["--workload", "hugealloc-short", "--scale", "1/128", "--seeds", "2"];
        ran(program().args(["policy", "try"]).args(more).args(small))
    };
    let Ran { status, stdout, stderr } = tried(&["linux-7.3,claim_share=100"]);
    assert_eq!((status, stderr.as_str()), (0, ""));
    assert!(stdout.starts_with("base: linux-7.3\npolicy: linux-7.3,claim_share=100\n"), "{stdout}");
    for step in ["Lists looked at", "Blocks and pages looked at", "Times the zone lock was taken"] {
        assert!(stdout.contains(step), "{stdout}");
    }
    let Ran { stdout, .. } = tried(&["linux-7.3,hybrid_threshold=5"]);
    assert!(stdout.contains("The same events in every seed: hugealloc-short."), "{stdout}");
    let Ran { stdout, .. } = tried(&["linux-7.3,claim_share=100", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    is_documented(&json);
    let lists = json["rows"].as_array().unwrap().iter().find(|r| r["measure"] == "Lists looked at");
    let (better, worse) = (&lists.unwrap()["seeds_better"], &lists.unwrap()["seeds_worse"]);
    assert!(better.as_u64().unwrap() + worse.as_u64().unwrap() <= 2);
    let Ran { status, stderr, .. } = tried(&["linux-7.3"]);
    assert_eq!(
        (status, stderr.as_str()),
        (2, "error: linux-7.3 is its own base: give a policy that differs, or --base\n")
    );
    let Ran { status, stderr, .. } = tried(&["linux-7.3,claim_share=101"]);
    assert_eq!(
        (status, stderr.as_str()),
        (2, "error: switch 'claim_share' has no value '101'; a whole number from 0 to 100\n")
    );
}
