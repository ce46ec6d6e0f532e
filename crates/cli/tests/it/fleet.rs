//! `pageblock fleet`.

use std::fs;

use crate::{pageblock, prints, refuses};

const KILL: &str =
    "[    5.000000] Out of memory: Killed process 7 (java) total-vm:9kB, anon-rss:1kB\n";

/// A log, a flight file that is cut within its header, and an empty file.
#[test]
fn hosts_that_cannot_be_read_are_rows_with_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let hosts = folder.path().join("hosts");
    fs::create_dir(&hosts).unwrap();
    for (name, content) in [("router.log", KILL), ("cut.ring", "PBFLIGHT"), ("empty.log", "")] {
        fs::write(hosts.join(name), content).unwrap();
    }
    let table = folder.path().join("fleet.parquet");
    let ran = pageblock(&format!("fleet {} -o {}", hosts.display(), table.display()));
    assert_eq!(ran.status, 1);
    assert!(ran.stdout.starts_with("3 hosts: 1 examined, 2 cannot be read\n"), "{}", ran.stdout);
    assert!(ran.stderr.ends_with("fleet.parquet: 3 rows\n"), "{}", ran.stderr);
    assert!(fs::read(&table).unwrap().starts_with(b"PAR1"));
    let ran = pageblock(&format!("fleet {} --json", hosts.display()));
    let rows: serde_json::Value = serde_json::from_str(&ran.stdout).expect("it prints JSON");
    let errors: Vec<bool> =
        rows.as_array().unwrap().iter().map(|row| row["error"].is_string()).collect();
    assert_eq!((ran.status, errors), (1, vec![true, true, false]));
    let documented =
        [include_str!("../../../../docs/fleet.md"), include_str!("../../../../docs/json.md")]
            .concat();
    for key in rows[0].as_object().unwrap().keys() {
        assert!(documented.contains(&format!("`{key}`")), "{key}");
    }
    // One host that can be read.
    let text = prints(&format!("fleet {}/router.log", hosts.display()));
    assert!(text.starts_with("1 host: 1 examined\n"), "{text}");
}

#[test]
fn no_host_and_no_job_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display();
    refuses(&format!("fleet {path}"), "error: no host in ");
    refuses(&format!("fleet {path}/none"), &format!("error: {path}/none: no such file or folder"));
    fs::write(folder.path().join("router.log"), KILL).unwrap();
    refuses(&format!("fleet {path} --jobs 0"), "error: --jobs 0: allowed: 1 or more");
    refuses(&format!("fleet {path} -o {path}/none/fleet.parquet"), "error: ");
}
