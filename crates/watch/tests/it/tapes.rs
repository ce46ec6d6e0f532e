//! Files that are played back.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;

use pageblock::alloc::Allocator;
use pageblock::frame::FrameRange;
use pageblock::ids::{CpuId, NodeId};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::mobility::Migratetype::Unmovable;
use pageblock::policy::Policy;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock_doctor::flight::{Event, EventKind, Frame, Ring};
use pageblock_measure::History;
use pageblock_measure::value::history::{Content, HistoryBuilder};
use pageblock_picture::{Kind, Subject};
use pageblock_watch::{App, Colors, FlightTape, HistoryTape, Level, Source};

use crate::fake::{look, screen, text};

/// A run of 16 pageblocks: kernel memory is taken between two samples.
fn history() -> History {
    let span = FrameRange::new(0, 1 << 13);
    let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
    let setup = Setup::new(Policy::parse("linux-6.12").unwrap(), &zones, &[NodeId(0)]);
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(FrameRange::new(512, 1 << 13)).unwrap();
    allocator.retune();
    let mut builder = HistoryBuilder::new(&allocator);
    builder.sample(0, &allocator, |_, _| Unmovable, [("allocstall", 0)]);
    let kernel = Request::new(3, Gfp::GFP_KERNEL);
    allocator.alloc(CpuId(0), &kernel, &mut ()).unwrap();
    builder.sample(2_000_000, &allocator, |_, _| Unmovable, [("allocstall", 10)]);
    builder.finish()
}

fn subject(history: Option<History>) -> Subject {
    Subject {
        name: "linux-6.12".to_owned(),
        kind: Kind::Simulated,
        workload: "a workload".to_owned(),
        machine: "a machine".to_owned(),
        seed: Some(1),
        command: String::new(),
        certificate: None,
        notes: vec!["a note".to_owned()],
        history,
    }
}

#[test]
fn a_run_is_played_back() {
    let mut tape = HistoryTape::open(&subject(Some(history()))).unwrap().unwrap();
    assert_eq!(tape.position(), (0, 2));
    let of = |tape: &HistoryTape, content| {
        tape.now().cells.iter().filter(|cell| cell.unwrap().content == content).count()
    };
    assert_eq!((of(&tape, Content::Reserved), of(&tape, Content::Unmovable)), (1, 0));
    assert_eq!(tape.now().zones[0].free, 15 * 512);
    tape.seek(9);
    assert_eq!(tape.position(), (1, 2));
    assert_eq!(of(&tape, Content::Unmovable), 1);
    assert_eq!(tape.now().when, "2.0 of 2.0 s");
    let stalls = tape.curves().iter().find(|curve| curve.name == "stalls").unwrap();
    assert_eq!(stalls.values[1], Some(5.0));
    let held = (0..16).find(|&at| tape.now().cells[at].unwrap().content == Content::Unmovable);
    let facts = tape.block(0, held.unwrap() as u64);
    assert!(facts.contains(&("content".to_owned(), "unmovable".to_owned())), "{facts:?}");
    assert!(facts.contains(&("over time".to_owned(), ".U".to_owned())), "{facts:?}");
    let shown = text(&screen(&mut App::new(&tape, look(Colors::None), 1), &tape, (120, 40)));
    assert!(shown.contains("linux-6.12 on a workload") && shown.contains("a note"), "{shown}");
    assert!(shown.contains("2.0 of 2.0 s [2/2]"), "{shown}");
    let refused = tape.save(std::path::Path::new("."), &|| false).err().unwrap().to_string();
    assert!(refused.contains("only this machine"), "{refused}");
}

#[test]
fn a_run_without_history_has_nothing_to_show() {
    assert!(HistoryTape::open(&subject(None)).unwrap().is_none());
    let mut damaged = history();
    damaged.cells.truncate(8);
    assert!(HistoryTape::open(&subject(Some(damaged))).is_err());
}

const START_MS: u64 = 1_700_000_000_000;

fn frame(second: u64, stalls: u64) -> Frame {
    let zoneinfo = "Node 0, zone   Normal\n  pages free     900\n        min      8\n        low      10\n        high     12\n        \
                    spanned  2560\n        present  2560\n        managed  2048\n  start_pfn:           512\n";
    let files = BTreeMap::from([
        ("/proc/uptime", format!("{}.00 1.00\n", 100 + second)),
        ("/proc/vmstat", format!("compact_stall {stalls}\n")),
        ("/proc/zoneinfo", zoneinfo.to_owned()),
        ("/proc/meminfo", "MemTotal: 8192 kB\n".to_owned()),
        ("/proc/buddyinfo", "Node 0, zone   Normal      4      0      0      0      0      0      0      0      0      1      0 \n".to_owned()),
    ]);
    Frame {
        wall_ms: START_MS + second * 1000,
        files: files.into_iter().map(|(name, text)| (name.to_owned(), Ok(text))).collect(),
        ..Frame::default()
    }
}

#[test]
fn a_flight_file_is_played_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ring");
    let mut ring = Ring::open(&path, Some(4 << 20)).unwrap();
    for second in 0..30 {
        let mut frame = frame(second, if second > 20 { (second - 20) * 50 } else { 0 });
        if second == 25 {
            let text = "page allocation failure: order:4".to_owned();
            frame.events.push(Event { kind: EventKind::Failure, text });
        }
        ring.append(&frame).unwrap();
    }
    drop(ring);
    let mut tape = FlightTape::open(&path, &|| false).unwrap();
    assert_eq!(tape.position(), (0, 30));
    assert!(tape.now().notes.iter().all(|note| note.level != Level::Critical));
    tape.seek(26);
    assert!(tape.now().notes[0].text.contains("order:4"), "{:?}", tape.now().notes);
    assert_eq!(tape.now().when, "2023-11-14T22:13:46Z");
    let stalls = tape.curves().iter().find(|curve| curve.name == "stalls: compaction").unwrap();
    assert_eq!(
        (stalls.values[0], stalls.values[10], stalls.values[26]),
        (None, Some(0.0), Some(50.0))
    );
    let mut app = App::new(&tape, look(Colors::None), 1);
    let shown = text(&screen(&mut app, &tape, (80, 24)));
    // It has no map: figures over time stand there.
    assert!(shown.contains("stalls: compaction 50 /s (0 to 50)"), "{shown}");
    assert!(FlightTape::open(&path, &|| true).is_err());
}
