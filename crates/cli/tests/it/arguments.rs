use std::process::{Command, Stdio};

use crate::{pageblock, prints, refuses};

#[test]
fn wrong_usage_is_one_line() {
    refuses(
        "policy",
        "error: a command is missing: pageblock policy list | show | diff | try | new (see --help)",
    );
    refuses("polish", "error: unrecognized subcommand 'polish'");
    refuses("replya", "error: unrecognized subcommand 'replya'; similar is replay (see --help)\n");
    refuses("doctor --jsom", "error: unexpected argument '--jsom' found; similar is --json (see");
    refuses("verify", "error: the following required arguments were not provided: <RECORDING>");
    refuses("replay", "error: the following required arguments were not provided: <RECORDING>");
    refuses(
        "policy show --json --toml linux-5.0",
        "error: the argument '--json' cannot be used with",
    );
    refuses("verify / --mismatches many", "error: invalid value 'many' for '--mismatches <N>'");
}

#[test]
fn plans_are_checked_before_work_starts() {
    refuses(
        "verify /nowhere",
        "error: recording /nowhere does not exist; a recording is a .pbrec, a folder with start/ and events, or a \
         capture; `pageblock record` makes one, ",
    );
    refuses("verify /dev/null", "error: recording /dev/null is no folder or file; ");
    refuses("verify / --min-shape 99", "error: --min-shape 99 is not a share from 0 to 1");
    refuses("verify / --min-exact=-1", "error: --min-exact -1 is not a share from 0 to 1");
    refuses(
        "verify / --policy linux",
        "error: unknown policy 'linux'; the most similar are linux-3.10, ",
    );
    refuses(
        "replay / --policy linux-5.0 --baseline linux-5.1",
        "error: --baseline 'linux-5.1' is not among the policies: linux-5.0",
    );
    refuses(
        "replay / --policy linux-5.0 --policy linux-5.0",
        "error: --policy 'linux-5.0' is given twice",
    );
}

#[test]
fn simulations_are_checked_before_they_start() {
    let policy = "--policy linux-4.20";
    refuses(
        "run thpfioscale",
        "error: --policy is missing: at least one policy is needed, or --published for those of the ",
    );
    refuses(
        &format!("run fio {policy}"),
        "error: there is no workload 'fio'; there are thpfioscale, thpfioscale-defrag, ",
    );
    refuses(
        &format!("run thpfioscale {policy} --machine laptop"),
        "error: there is no machine 'laptop'; there are skylake-1s, haswell-2s, small-4g, small-1g",
    );
    refuses(
        &format!("run thpfioscale {policy} --machine /nowhere.toml"),
        "error: /nowhere.toml: cannot read: No such file or directory\n",
    );
    refuses(
        &format!("run thpfioscale {policy} --scale 3"),
        "error: --scale: scale '3' is not a fraction from 1/1024 to 1, such as 1/8",
    );
    refuses(&format!("run thpfioscale {policy} --seeds 0"), "error: --seeds 0: at least one seed");
    refuses(
        &format!("run thpfioscale {policy} {policy}"),
        "error: --policy 'linux-4.20' is given twice",
    );
    refuses(
        "run thpfioscale --policy linux-4.20,nofragments=on",
        "error: unknown switch 'nofragments'; the most similar is nofragment (`pageblock policy show",
    );
    refuses(
        "compare /nowhere.json",
        "error: /nowhere.json: cannot read: No such file or directory\n",
    );
}

#[test]
fn impossible_machines_are_named_with_their_key() {
    let file = std::env::temp_dir().join(format!("pageblock-machine-{}.toml", std::process::id()));
    let check = |text: &str, expect: &str| {
        std::fs::write(&file, text).unwrap();
        let name = file.display().to_string();
        let arguments = format!("run thpfioscale --policy linux-4.20 --machine {name}");
        refuses(&arguments, &format!("error: {name}: {expect}"));
    };
    let machine = |node: &str| {
        format!(
            "name = \"m\"\n[[node]]\n{node}\n[disk]\nread_us = 90\nread_places = 4\nwrite_mib_s = 110\n"
        )
    };
    check(
        &machine("cpus = 8\nmemory_mib = [[0, 64], [32, 128]]"),
        "memory_mib: ranges 0..16384 and 8192..32768 overlap",
    );
    check(&machine("cpus = 8\nmemory_mib = []"), "memory_mib: the machine has no memory");
    check(
        &machine("cpus = 5000\nmemory_mib = [[0, 64]]"),
        "line 3: `cpus` is 5000; allowed: a whole number from 0 to 1024",
    );
    check(&machine("cpus = 8\nmemory = 3"), "line 2: `memory_mib` is missing in [[node]]");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn saved_runs_are_compared_and_damaged_ones_refused() {
    let file = std::env::temp_dir().join(format!("pageblock-runs-{}.json", std::process::id()));
    let text = r#"[{"policy":"linux-4.20","workload":"thpfioscale","machine":"m","seed":1,"event_hash":"0",
        "counters":{"list_probes":3},"extfrag":[],"samples":{"fault-base-1":[600000,700000]}}]"#;
    std::fs::write(&file, text).unwrap();
    let name = file.display().to_string();
    let printed = prints(&format!("compare {name} --tables all"));
    assert!(printed.contains("Amean     fault-base-1      650.00 (   0.00%)"), "{printed}");
    assert!(printed.contains("Work list-probes"), "{printed}");
    std::fs::write(&file, &text[..60]).unwrap();
    refuses(&format!("compare {name}"), &format!("error: {name}: line 1, column "));
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn help_and_version_are_not_errors() {
    assert!(prints("--help").contains("Exit status: 0; 1 where a comparison says no; 2 "));
    assert!(prints("replay --help").contains("NAME,switch=value"));
    assert!(prints("--version").starts_with("pageblock "));
    assert_eq!(pageblock("help").status, 0);
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pageblock"))
        .args(["policy", "show", "linux-6.12", "--toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0));
    assert!(out.stderr.is_empty());
}

#[test]
fn help_names_every_workload_and_machine() {
    let text = pageblock("run --help").stdout;
    for workload in pageblock_simulate::workload::ALL {
        assert!(text.contains(workload.head().summary), "{}", workload.name());
    }
    for machine in
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines")).unwrap()
    {
        let name = machine.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
        assert!(text.contains(&name), "{name}");
    }
}
