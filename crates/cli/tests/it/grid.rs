//! `pageblock sweep`: a table of a grid.

use crate::{compares, file, pageblock, prints, refuses};

const GRID: &str = "workloads = [\"hugealloc-short\"]\nkernels = [\"linux-6.9\", \"linux-6.10\"]\nscales = [\"1/64\"]\nseeds = 2\n";

#[test]
fn a_grid_is_run_once_and_gives_one_table() {
    let grid = file("grid.toml", GRID);
    let out = grid.with_extension("sweep");
    let _ = std::fs::remove_dir_all(&out);
    let grid = grid.display();
    assert_eq!(pageblock(&format!("sweep {grid} --count")).stdout, "4\n");
    assert!(!out.exists(), "--count writes nothing");
    let first = pageblock(&format!("sweep {grid} --jobs 1"));
    assert_eq!(first.stdout, format!("{}: 4 runs\n", out.join("runs.parquet").display()));
    let table = std::fs::read(out.join("runs.parquet")).unwrap();
    let again = pageblock(&format!("sweep {grid}"));
    assert!(
        again.stdout.ends_with("runs.parquet: 4 runs, 4 of them done before\n"),
        "{}",
        again.stdout
    );
    let other = grid.to_string() + ".other";
    let _ = std::fs::remove_dir_all(&other);
    pageblock(&format!("sweep {grid} -o {other}"));
    assert_eq!(std::fs::read(std::path::Path::new(&other).join("runs.parquet")).unwrap(), table);
}

#[test]
fn each_workload_of_a_sweep_is_compared() {
    let two = GRID.replace("[\"hugealloc-short\"]", "[\"hugealloc-short\", \"netperf-udp\"]");
    let grid = file("two.toml", &two);
    let out = grid.with_extension("sweep");
    let _ = std::fs::remove_dir_all(&out);
    pageblock(&format!("sweep {}", grid.display()));
    let out = out.display();
    let each: Vec<String> = ["hugealloc-short", "netperf-udp"]
        .map(|workload| {
            let saved = grid.with_extension(format!("{workload}.json"));
            let _ = std::fs::remove_file(&saved);
            let policies = "--policy linux-6.9 --policy linux-6.10";
            compares(&format!(
                "run {workload} {policies} --scale 1/64 --seeds 2 --save {}",
                saved.display()
            ))
        })
        .to_vec();
    assert_eq!(prints(&format!("compare {out}")), each.join("\n"));
    let json = prints(&format!("compare --json=comparison {out}"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json.as_array().map(Vec::len), Some(2));
    let runs = prints(&format!("compare --json=runs {out}"));
    let runs: serde_json::Value = serde_json::from_str(&runs).unwrap();
    assert_eq!(runs.as_array().map(Vec::len), Some(8));
}

/// A workload and a machine that files describe are part of a sweep by their content: under the same names, other files are
/// another sweep, and answers of the old ones are not taken for theirs.
#[test]
fn files_of_a_grid_are_bound_by_content() {
    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |name: &str| std::fs::read_to_string(format!("{ROOT}/{name}")).unwrap();
    let workload = read("examples/workloads/swing.toml");
    let machine = read("crates/plan/machines/small-1g.toml");
    let (load, place) = (file("mine.toml", &workload), file("place.toml", &machine));
    let text = format!(
        "workloads = [{:?}]\nmachines = [{:?}]\nkernels = [\"linux-6.9\", \"linux-6.10\"]\nscales = [\"1/32\", \"1/16\"]\n",
        load.display().to_string(),
        place.display().to_string()
    );
    let grid = file("files.toml", &text);
    let out = grid.with_extension("sweep");
    let _ = std::fs::remove_dir_all(&out);
    let command = format!("sweep {}", grid.display());
    let ran = pageblock(&command);
    assert!(ran.stdout.ends_with("runs.parquet: 4 runs\n"), "{}{}", ran.stdout, ran.stderr);
    let hashes = |json: &str| -> Vec<String> {
        let runs: serde_json::Value = serde_json::from_str(json).unwrap();
        let of = |run: &serde_json::Value| run["event_hash"].to_string();
        runs.as_array().unwrap().iter().map(of).collect()
    };
    let swept = hashes(&prints(&format!("compare --json=runs {}", out.display())));
    let alone = format!(
        "run {} --machine {} --policy linux-6.9 --policy linux-6.10 --scale 1/32 --seeds 1 --json=runs",
        load.display(),
        place.display()
    );
    assert_eq!(swept[..2], hashes(&prints(&alone)), "a sweep runs what `run` runs");

    let another = "line 2: the folder has another sweep: swing under linux-6.";
    let refused = || {
        let said = pageblock(&command);
        assert_eq!(said.status, 2, "{}", said.stdout);
        assert!(said.stderr.contains(another), "{}", said.stderr);
    };
    file("mine.toml", &format!("{workload}\n# changed\n"));
    refused();
    file("mine.toml", &workload);
    file("place.toml", &format!("{machine}\n# changed\n"));
    refused();
    file("place.toml", &machine);
    assert!(pageblock(&command).stdout.ends_with("4 runs, 4 of them done before\n"));
}

#[test]
fn mistakes_in_a_grid_are_named() {
    let huge = file("huge.toml", &GRID.replace("seeds = 2", "seeds = 500000000"));
    refuses(
        &format!("sweep {}", huge.display()),
        "error: the grid has 1000000000 runs; at most 1000000 are allowed in a sweep\n",
    );
    let unknown = file("unknown.toml", &GRID.replace("hugealloc-short", "nothing"));
    refuses(
        &format!("sweep {}", unknown.display()),
        "error: there is no workload 'nothing'; there are ",
    );
    assert!(!unknown.with_extension("sweep").exists(), "nothing is begun");
}
