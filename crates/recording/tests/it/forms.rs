//! Events in every file format, plain and compressed, and files of other tools.

use std::io::Read;

use pageblock_recording::Recording;

use crate::TempDir;
use crate::columnar::small_recording;
use crate::made::{Form, trace_dat};

const TSV: &str = "7689560 0 1 M S1\n7690248 1 7 A 512 0 1 GFP_KERNEL\n7690249 1 7 F 512 0\n";
const TEXT: &str = "  wl-26389 [000] ...2.  9386.850200: mm_page_free: pfn=0x5f order=0\n\
    \x20 wl-26389 [000] ...2.  9386.850201: mm_page_free: pfn=0x60 order=0\n\
    \x20 wl-26389 [000] ...2.  9386.850202: mm_page_free: pfn=0x61 order=0\n";

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    liblzma::read::XzEncoder::new(bytes, 6).read_to_end(&mut packed).unwrap();
    packed
}

#[test]
fn plain_and_compressed_files_have_the_same_events() {
    let temp = TempDir::new("forms");
    let dir = small_recording(&temp, "");
    std::fs::remove_file(dir.join("events.tsv")).unwrap();
    let heading = format!("# pb-events v1: t_us cpu pid op args\n{TSV}");
    let dat = |version| trace_dat(Form { version, big_endian: false, zstd: false }, 3);
    let forms = [
        ("events.tsv", TSV.as_bytes().to_vec()),
        ("events.tsv", heading.into_bytes()),
        ("trace.txt", TEXT.as_bytes().to_vec()),
        ("trace.dat", dat(6)),
        ("trace.dat", dat(7)),
    ];
    for (name, plain) in forms {
        let packed = [
            (name.to_owned(), plain.clone()),
            (format!("{name}.zst"), zstd::encode_all(&plain[..], 3).unwrap()),
            (format!("{name}.xz"), xz(&plain)),
        ];
        for (name, bytes) in packed {
            std::fs::write(dir.join(&name), bytes).unwrap();
            let events = Recording::open(&dir).and_then(|recording| recording.events());
            let events = events.and_then(std::iter::Iterator::collect::<Result<Vec<_>, _>>);
            assert_eq!(events.as_ref().map(Vec::len).ok(), Some(3), "{name}: {:?}", events.err());
            std::fs::remove_file(dir.join(&name)).unwrap();
        }
    }
}

#[test]
fn files_of_other_compressors_are_named() {
    let temp = TempDir::new("others");
    let dir = small_recording(&temp, "");
    std::fs::remove_file(dir.join("events.tsv")).unwrap();
    for name in ["trace.dat", "trace.txt", "perf.data"] {
        let file = dir.join(name);
        std::fs::write(&file, b"\x1f\x8b\x08 and more").unwrap();
        let read = Recording::open(&dir).and_then(|recording| recording.events());
        let error = read.err().expect(name).to_string();
        let expected =
            "found a gzip file; allowed: a plain file, or one compressed with xz or zstd";
        assert_eq!(error, format!("{} (byte 0): {expected}", file.display()));
        std::fs::remove_file(&file).unwrap();
    }
}
