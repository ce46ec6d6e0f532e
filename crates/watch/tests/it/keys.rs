//! What keys do.

use std::time::Duration;

use pageblock_watch::{Action, App, Colors, Key};

use crate::fake::{Fake, look, screen, text};

const SIZE: (u16, u16) = (80, 24);

fn shown(app: &mut App, source: &Fake) -> String {
    text(&screen(app, source, SIZE))
}

#[test]
fn a_file_is_played_and_sought() {
    let mut source = Fake::new(false);
    source.at = 0;
    let mut app = App::new(&source, look(Colors::None), 1);
    let second = Duration::from_secs(1);
    assert_eq!(app.pace(&source, second), None);
    for (key, at) in [
        (Key::Char('.'), 1),
        (Key::Char(']'), 3),
        (Key::PageDown, 5),
        (Key::Char('['), 3),
        (Key::Char(','), 2),
        (Key::End, 19),
        (Key::Char('.'), 19),
        (Key::Char('5'), 9),
        (Key::Home, 0),
        (Key::Char(','), 0),
    ] {
        app.press(key, &mut source);
        assert_eq!(source.at, at, "{key:?}");
    }
    // It plays to its end and stops there; played again, it begins again.
    app.press(Key::Char(' '), &mut source);
    assert!(shown(&mut app, &source).contains("playing"));
    for _ in 0..25 {
        app.play(&mut source);
    }
    assert_eq!((source.at, app.pace(&source, second)), (19, None));
    app.press(Key::Char(' '), &mut source);
    assert_eq!(source.at, 0);
    let slow = app.pace(&source, second);
    app.press(Key::Char('>'), &mut source);
    assert!(app.pace(&source, second) < slow);
}

#[test]
fn this_machine_is_paused() {
    let mut source = Fake::new(true);
    let mut app = App::new(&source, look(Colors::None), 1);
    let second = Duration::from_secs(1);
    assert_eq!(app.pace(&source, second), Some(second));
    app.press(Key::Char('p'), &mut source);
    assert_eq!(app.pace(&source, second), None);
    assert!(shown(&mut app, &source).contains("PAUSED"));
    // It has no past to seek in.
    app.press(Key::Home, &mut source);
    assert_eq!(source.at, 19);
}

#[test]
fn a_zone_and_an_order_are_chosen() {
    let mut source = Fake::new(true);
    let mut app = App::new(&source, look(Colors::None), 1);
    assert!(shown(&mut app, &source).contains(">  9"));
    app.press(Key::Char('o'), &mut source);
    assert!(shown(&mut app, &source).contains("> 10"));
    app.press(Key::Char('o'), &mut source);
    assert!(shown(&mut app, &source).contains(">  0       20"));
    app.press(Key::Char('z'), &mut source);
    let only = shown(&mut app, &source);
    assert!(only.contains("node 0 DMA32") && only.contains(">  0       10"), "{only}");
    assert!(!only.contains("4G") && only.contains("mixed 0"), "{only}");
    app.press(Key::Char('z'), &mut source);
    let only = shown(&mut app, &source);
    assert!(only.contains("node 0 Normal") && only.contains("mixed 256"), "{only}");
    app.press(Key::Char('z'), &mut source);
    assert!(shown(&mut app, &source).contains("all zones"));
}

#[test]
fn enter_goes_nearer_and_then_shows_the_block() {
    let mut source = Fake::new(true);
    let mut app = App::new(&source, look(Colors::None), 1);
    shown(&mut app, &source);
    app.press(Key::Enter, &mut source);
    assert!(shown(&mut app, &source).contains("arrows choose a block"));
    // The first arrow chooses the first cell; rows of 32 cells lie below each other.
    app.press(Key::Down, &mut source);
    app.press(Key::Enter, &mut source);
    assert!(shown(&mut app, &source).contains("a cell is one pageblock now"));
    for key in [Key::Down, Key::Right, Key::Right, Key::Enter] {
        app.press(key, &mut source);
        shown(&mut app, &source);
    }
    let block = shown(&mut app, &source);
    assert!(block.contains("pageblock 34, node 0 DMA32"), "{block}");
    assert!(block.contains("zone 0 block 34"), "{block}");
    // Esc closes it, and the view is as it was.
    assert_eq!(app.press(Key::Esc, &mut source), Action::Draw);
    assert!(!shown(&mut app, &source).contains("pageblock 34"));
    app.press(Key::Char('-'), &mut source);
    // A step over the hole between the zones leads to the next row with memory.
    for _ in 0..40 {
        app.press(Key::Down, &mut source);
        shown(&mut app, &source);
    }
    for _ in 0..8 {
        app.press(Key::Char('+'), &mut source);
        shown(&mut app, &source);
    }
    app.press(Key::Enter, &mut source);
    assert!(shown(&mut app, &source).contains("node 0 Normal"));
}

#[test]
fn keys_ask_for_what_others_do() {
    let mut source = Fake::new(true);
    let mut app = App::new(&source, look(Colors::None), 2);
    assert_eq!(app.press(Key::Char('s'), &mut source), Action::Save);
    assert_eq!(app.press(Key::Tab, &mut source), Action::Next);
    assert_eq!(app.next_run(), 1);
    assert!(shown(&mut app, &source).contains("(2 of 2, Tab)"));
    assert_eq!(app.press(Key::Char('?'), &mut source), Action::Draw);
    assert!(shown(&mut app, &source).contains("save this moment"));
    // q closes what is open first.
    assert_eq!(app.press(Key::Char('q'), &mut source), Action::Draw);
    assert_eq!(app.press(Key::Char('q'), &mut source), Action::Quit);
    assert_eq!(app.press(Key::Interrupt, &mut source), Action::Interrupt);
    assert_eq!(app.press(Key::Char('y'), &mut source), Action::Nothing);
}
