//! Real kernels that were fragmented on purpose (`tests/guests`): the cause that was made is named.

use std::fs;

use pageblock_doctor::checkup::{Checkup, Sample, checkup};
use pageblock_doctor::proc::tree::Tree;

fn examined(kernel: &str) -> Checkup {
    let folder = tempfile::tempdir().unwrap();
    let archive = format!("{}/tests/guests/hugetlb-{kernel}.tar.zst", env!("CARGO_MANIFEST_DIR"));
    let bytes = zstd::decode_all(fs::File::open(archive).unwrap()).unwrap();
    tar::Archive::new(&bytes[..]).unpack(folder.path()).unwrap();
    let first = Sample::read(&Tree::new(&folder.path().join("before")), false);
    let second = Sample::read(&Tree::new(&folder.path().join("after")), true);
    checkup(&first, Some(&second))
}

/// Hugetlb pages were asked for in memory whose pageblocks pipe pages hold, and nothing else ran: both findings name that,
/// and none says that memory is short.
#[test]
fn hugetlb_pages_that_cannot_be_made_are_the_cause() {
    for kernel in ["61", "612"] {
        let checkup = examined(kernel);
        let mut names: Vec<&str> = checkup.findings.iter().map(|finding| finding.name).collect();
        names.sort_unstable();
        assert_eq!(names, ["direct_compaction", "hugetlb_short"], "{kernel}");
        let found = |name: &str| checkup.findings.iter().find(|f| f.name == name).unwrap();
        let compaction = found("direct_compaction");
        assert!(compaction.cause.contains("hugetlb pages"), "{kernel}: {}", compaction.cause);
        // More compaction is no advice where nearly all of it is in vain.
        assert!(compaction.commands.iter().all(|c| !c.run.contains("proactiveness")), "{kernel}");
        assert!(compaction.commands[0].run.contains("forecast --remedies"));
        assert!(found("hugetlb_short").cause.contains("too few free blocks"));
    }
}
