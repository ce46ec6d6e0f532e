use std::fs;

use super::*;
use crate::watch::Quiet;

const METRICS: &str = "# HELP pageblock_free_blocks Free blocks of an order.\n# TYPE pageblock_free_blocks gauge\n\
    pageblock_free_blocks{node=\"0\",zone=\"Normal\",order=\"0\"} 90\n\
    pageblock_free_blocks{node=\"0\",zone=\"Normal\",order=\"9\"} 0\n\
    pageblock_free_blocks{node=\"0\",zone=\"Normal\",order=\"10\"} 0\n\
    pageblock_zone_managed_bytes{node=\"0\",zone=\"Normal\"} 1073741824\n\
    pageblock_zone_free_bytes{node=\"0\",zone=\"Normal\"} 368640\n\
    pageblock_finding{name=\"fragmentation\",severity=\"warning\"} 1\n\
    pageblock_oom_kills_total 3\n";

/// A folder with a machine of every kind, and what cannot be read.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("web-1/proc")).unwrap();
    fs::write(at("web-1/proc/buddyinfo"), "Node 0, zone   Normal 100 0 0 0 0 0 0 0 0 4 0\n")
        .unwrap();
    fs::write(at("web-1/proc/version"), "Linux version 6.1.0-9-amd64 (x)\n").unwrap();
    fs::write(at("web-1/proc/uptime"), "7200.0 1.0\n").unwrap();
    fs::write(at("web-1/proc/vmstat"), "compact_stall 50\ncompact_fail 10\n").unwrap();
    fs::write(at("web-1/proc/meminfo"), "MemTotal: 1048576 kB\nMemFree: 20480 kB\nAnonPages: 512000 kB\nCached: 102400 kB\nBuffers: 0 kB\nShmem: 51200 kB\nSUnreclaim: 20480 kB\n").unwrap();
    // A sosreport in a folder of the host.
    fs::create_dir_all(at("db-1/sosreport-x/proc")).unwrap();
    fs::write(
        at("db-1/sosreport-x/proc/buddyinfo"),
        "Node 0, zone   Normal 1 0 0 0 0 0 0 0 0 4 0\n",
    )
    .unwrap();
    fs::write(at("node-3.prom"), METRICS).unwrap();
    fs::write(
        at("router.log"),
        "[ 1.0] Linux version 5.4.74 (x)\n[ 5.0] Out of memory: Killed process 7 (java) total-vm:9kB, anon-rss:1kB\n",
    )
    .unwrap();
    fs::write(at("damaged.ring"), b"PBFLIGHT and then nothing").unwrap();
    fs::write(at("empty.log"), "").unwrap();
    fs::write(at("host9.tar.xz"), b"\xfd7zXZ\0").unwrap();
    fs::write(at("image.bin"), [0; 64]).unwrap();
    folder
}

#[test]
fn every_kind_of_host_is_a_row_and_the_unreadable_are_named() {
    let folder = folder();
    let hosts = hosts(&[folder.path().to_owned()]).unwrap();
    let rows = examine(&hosts, 3, &Quiet::default()).unwrap().unwrap();
    let row = |host: &str| rows.iter().find(|row| row.host == host).unwrap();
    assert_eq!(rows.len(), 8);
    let web = row("web-1");
    assert_eq!((web.source.as_str(), web.kernel_version().as_deref()), ("tree", Some("6.1")));
    assert_eq!(web.rates["direct_compaction_per_hour"], 25.0);
    assert_eq!(
        (web.total_mib, web.held_mib["anonymous"], web.held_mib["file"]),
        (Some(1024), 500, 50)
    );
    assert_eq!(web.holder(), Some("anonymous"));
    assert_eq!(row("db-1").fragmented.as_deref(), Some("no"));
    let metrics = row("node-3");
    assert_eq!((metrics.source.as_str(), metrics.unusable_pageblock), ("metrics", Some(1.0)));
    assert_eq!(
        (metrics.findings.as_slice(), metrics.severity.as_deref()),
        (&["fragmentation".to_owned()][..], Some("warning"))
    );
    assert_eq!((metrics.oom_kills, metrics.total_mib), (3, Some(1024)));
    let log = row("router");
    assert_eq!((log.source.as_str(), log.oom_kills, log.hurts.as_deref()), ("log", 1, Some("did")));
    for (host, why) in [
        ("damaged", "PBFLIGHT"),
        ("empty", "an empty file"),
        ("host9", "host9.tar.xz: "),
        ("image", "neither a flight file, metrics, nor a log"),
    ] {
        let error = row(host).error.as_deref().unwrap();
        assert!(host == "damaged" || error.contains(why), "{host}: {error}");
    }
    // The table does not depend on the number of threads.
    assert_eq!(examine(&hosts, 1, &Quiet::default()).unwrap().unwrap(), rows);
}

#[test]
fn the_table_has_a_row_a_host_and_is_parquet() {
    let folder = folder();
    let hosts = hosts(&[folder.path().to_owned()]).unwrap();
    let rows = examine(&hosts, 2, &Quiet::default()).unwrap().unwrap();
    let batch = batch(&rows).unwrap();
    assert_eq!(batch.num_rows(), 8);
    for column in
        ["host", "error", "kernel_version", "held_anonymous_mib", "direct_compaction_per_hour"]
    {
        assert!(batch.column_by_name(column).is_some(), "{column}");
    }
    let path = folder.path().join("fleet.parquet");
    save(&path, &rows).unwrap();
    assert!(fs::read(path).unwrap().starts_with(b"PAR1"));
}

#[test]
fn hosts_of_one_name_are_told_apart_and_nothing_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = hosts(&[folder.path().to_owned()]).unwrap_err().to_string();
    assert!(error.starts_with("no host in "), "{error}");
    assert!(hosts(&[folder.path().join("none")]).is_err());
    std::fs::write(folder.path().join("log"), "a line\n").unwrap();
    let twice = [folder.path().to_owned(), folder.path().join("log")];
    let error = hosts(&twice).unwrap_err().to_string();
    assert_eq!(error, format!("{}: the host is given twice", twice[1].display()));
    std::fs::remove_file(&twice[1]).unwrap();
    for rack in ["a", "b"] {
        fs::create_dir(folder.path().join(rack)).unwrap();
        fs::write(folder.path().join(rack).join("web.log"), "x\n").unwrap();
    }
    let both = hosts(&[folder.path().join("a"), folder.path().join("b")]).unwrap();
    assert_eq!(both.len(), 2);
    assert_ne!(both[0].name, both[1].name);
    // Whatever a host's own name file says, it is sent to a worker and back unchanged.
    let json = serde_json::to_string(&both[0]).unwrap();
    assert_eq!(serde_json::from_str::<Host>(&json).unwrap(), both[0]);
}

/// A copied tree may have anything in place of a file.
#[test]
fn a_pipe_in_place_of_a_name_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("web-7");
    fs::create_dir_all(tree.join("etc")).unwrap();
    fs::create_dir_all(tree.join("proc")).unwrap();
    fs::write(tree.join("proc/buddyinfo"), "Node 0, zone   Normal 100 0 0 0 0 0 0 0 0 4 0\n")
        .unwrap();
    let made = std::process::Command::new("mkfifo").arg(tree.join("etc/hostname")).status();
    assert!(made.unwrap().success());
    let found = hosts(&[tree]).unwrap();
    assert_eq!(found.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["web-7"]);
}

/// The bytes of a sosreport of a machine, and of what is not read.
fn sosreport() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut add = |path: &str, text: &str| {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, text.as_bytes()).unwrap();
    };
    add("sosreport-x/etc/hostname", "db-7\n");
    add("sosreport-x/proc/buddyinfo", "Node 0, zone   Normal 100 0 0 0 0 0 0 0 0 4 0\n");
    add("sosreport-x/proc/version", "Linux version 6.1.0-9-amd64 (x)\n");
    add("sosreport-x/proc/meminfo", "MemTotal: 1048576 kB\nMemFree: 20480 kB\n");
    add("sosreport-x/proc/4711/maps", "secret\n");
    add("sosreport-x/etc/shadow", "secret\n");
    tar.into_inner().unwrap()
}

#[test]
fn sosreports_are_read_as_they_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("a.tar"), sosreport()).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &sosreport()).unwrap();
    let packed = packed.finish().unwrap();
    fs::write(at("b.tar.gz"), &packed).unwrap();
    fs::write(at("cut.tgz"), &packed[..packed.len() / 2]).unwrap();
    let empty = tar::Builder::new(Vec::new()).into_inner().unwrap();
    fs::write(at("other.tar"), empty).unwrap();
    let rows = examine(&hosts(&[folder.path().to_owned()]).unwrap(), 2, &Quiet::default());
    let rows = rows.unwrap().unwrap();
    for row in &rows[..2] {
        let seen = (row.host.as_str(), row.source.as_str(), row.total_mib);
        assert_eq!((seen, &row.error), (("db-7", "archive", Some(1024)), &None));
        assert_eq!(row.kernel_version().as_deref(), Some("6.1"));
        assert!(row.path.ends_with(".tar") || row.path.ends_with(".tar.gz"), "{}", row.path);
    }
    for (row, why) in rows[2..].iter().zip(["cut.tgz: ", "nothing in it tells of memory"]) {
        assert!(row.error.as_deref().unwrap().contains(why), "{row:?}");
    }
}
