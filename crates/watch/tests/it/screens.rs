//! What is drawn, at the sizes and with the colours of real terminals.

use std::collections::BTreeSet;

use pageblock_measure::value::history::Content;
use pageblock_watch::{App, Colors, Key, Look, Source, once};
use ratatui::style::Color;

use crate::fake::{Fake, cell, lines, look, screen, text};

fn app(source: &Fake, colors: Colors) -> App {
    App::new(source, look(colors), 1)
}

#[test]
fn everything_has_its_place_at_both_sizes() {
    for size in [(80, 24), (200, 60), (60, 20), (119, 36), (120, 36)] {
        let source = Fake::new(true);
        let shown = text(&screen(&mut app(&source, Colors::Palette), &source, size));
        for part in [
            "pageblock watch  6.18 3.0 GiB  all zones",
            "12:00:05 UTC",
            "fragmented: yes",
            "kcompactd burns a CPU",
            "pageblocks of 2 MiB",
            "0G",
            "4G",
            "mixed 256",
            "unmovable 256",
            "fallbacks: unmovable",
            "19 /s",
            "DMA32",
            "q quit",
        ] {
            assert!(shown.contains(part), "{size:?}: no {part:?} in\n{shown}");
        }
        // The gigabytes between the zones have no row.
        assert!(!shown.contains("1G") && !shown.contains("3G"), "{shown}");
        let orders = shown.lines().filter(|line| line.contains("10 ") && line.contains('%'));
        assert!(size.1 < 24 || orders.count() > 0, "{shown}");
    }
}

#[test]
fn a_terminal_that_is_too_small_is_told_so() {
    let source = Fake::new(true);
    for size in [(59, 24), (80, 19), (1, 1), (3, 200)] {
        let shown = text(&screen(&mut app(&source, Colors::True), &source, size));
        assert!(!shown.contains("mixed"), "{shown}");
    }
    let shown = text(&screen(&mut app(&source, Colors::True), &source, (50, 12)));
    assert!(shown.contains("50 by 12 is too small: 60 by 20 is needed"), "{shown}");
}

/// The colours of the map's cells, foreground and background.
fn colors(of: Colors) -> BTreeSet<String> {
    let source = Fake::new(true);
    let buffer = screen(&mut app(&source, of), &source, (80, 24));
    let mut colors = BTreeSet::new();
    for y in 4..12 {
        for x in 6..38 {
            let cell = &buffer[(x, y)];
            if cell.symbol() != " " {
                colors.extend([format!("{:?}", cell.bg), format!("{:?}", cell.fg)]);
            }
        }
    }
    colors
}

#[test]
fn classes_have_colors_of_their_own_where_the_terminal_has_any() {
    let of = |content| {
        let (red, green, blue) = pageblock_picture::Theme::Dark.content(content);
        format!("{:?}", Color::Rgb(red, green, blue))
    };
    let seen = colors(Colors::True);
    for content in [Content::Free, Content::Movable, Content::Mixed, Content::Unmovable] {
        assert!(seen.contains(&of(content)), "{content:?} in {seen:?}");
    }
    let palette = colors(Colors::Palette);
    assert!(
        palette.iter().filter(|color| color.starts_with("Indexed")).count() >= 4,
        "{palette:?}"
    );
    let sixteen = colors(Colors::Sixteen);
    assert!(sixteen.contains("Magenta") && sixteen.contains("Blue"), "{sixteen:?}");
    assert!(!sixteen.iter().any(|color| color.starts_with("Indexed") || color.starts_with("Rgb")));
    assert_eq!(colors(Colors::None), BTreeSet::from(["Reset".to_owned()]));
}

/// In grey and without colours, letters say what colours do.
#[test]
fn letters_say_what_colors_do() {
    let source = Fake::new(true);
    for colors in [Colors::None, Colors::Sixteen] {
        let shown = lines(&screen(&mut app(&source, colors), &source, (80, 24)));
        let map = shown[4..13].join("");
        for letter in ['.', 'm', '6', 'U'] {
            assert!(map.contains(letter), "{colors:?}: no {letter} in {map}");
        }
    }
    let mut pressed = app(&source, Colors::True);
    pressed.press(Key::Char('l'), &mut Fake::new(true));
    let shown = lines(&screen(&mut pressed, &source, (80, 24)));
    assert!(shown[4..13].join("").contains("mmmm"), "{}", shown.join("\n"));
}

#[test]
fn a_cell_of_several_blocks_shows_most_of_them_or_the_worst() {
    let mut source = Fake::new(true);
    for at in 0..1536 {
        // One of the eight in each cell is held.
        source.moment.cells[at] =
            Some(if at % 8 == 3 { cell(Content::Mixed, 1) } else { cell(Content::Free, 0) });
    }
    let mut app = app(&source, Colors::None);
    let map = |app: &mut App, source: &Fake| lines(&screen(app, source, (80, 24)))[4..12].join("");
    let most = map(&mut app, &source);
    assert!(most.contains("....") && !most.contains("0000"), "{most}");
    app.press(Key::Char('w'), &mut source);
    let worst = map(&mut app, &source);
    assert!(worst.contains("0000") && !worst.contains("...."), "{worst}");
}

/// Pages that may be free do not make a block mixed, and the legend counts the zone that is shown.
#[test]
fn blocks_that_are_perhaps_held_have_a_letter_of_their_own() {
    let mut source = Fake::new(true);
    source.moment.unsure = (0..1536).map(|at| (768..800).contains(&at)).collect();
    let mut app = app(&source, Colors::None);
    let shown = text(&screen(&mut app, &source, (80, 24)));
    assert!(shown.contains("???") && shown.contains("? perhaps held 32"), "{shown}");
    assert!(shown.contains("mixed 224"), "{shown}");
    app.press(Key::Char('z'), &mut source);
    let shown = text(&screen(&mut app, &source, (80, 24)));
    assert!(!shown.contains("perhaps"), "{shown}");
}

#[test]
fn what_is_missing_is_said_and_the_rest_is_there() {
    let mut source = Fake::new(true);
    source.about.no_map = Some("no map: /proc/kpageflags: root is needed".to_owned());
    source.moment.cells.clear();
    source.moment.missing = vec!["map (root is needed)".to_owned()];
    let mut app = app(&source, Colors::None);
    let shown = text(&screen(&mut app, &source, (80, 24)));
    assert!(shown.contains("without: map (root is needed)"), "{shown}");
    // Figures over time stand where the map would.
    assert!(shown.contains("the last moments") && shown.contains("(0 to 19)"), "{shown}");
    app.press(Key::Char('t'), &mut source);
    let shown = text(&screen(&mut app, &source, (80, 24)));
    assert!(shown.contains("no map: /proc/kpageflags"), "{shown}");
}

#[test]
fn nothing_from_a_file_is_obeyed_by_the_terminal() {
    let mut source = Fake::new(true);
    source.about.title = "x\u{1b}[31m\u{202e}\u{9b}y".to_owned();
    source.moment.notes[0].text = "a\u{7}b\nc".to_owned();
    let shown = text(&screen(&mut app(&source, Colors::None), &source, (80, 24)));
    assert!(shown.contains("x?[31m??y") && shown.contains("a?b?c"), "{shown}");
    let own = shown.replace('\n', "");
    assert!(!own.contains(|c: char| c.is_control()), "{shown}");
}

#[test]
fn one_screen_is_plain_text() {
    let source = Fake::new(true);
    let look = Look { ascii: true, ..look(Colors::None) };
    let shown = once(&mut App::new(&source, look, 1), &source, (100, 40));
    assert_eq!(shown.lines().count(), 40);
    assert!(shown.is_ascii(), "{shown}");
    assert!(shown.contains("mmmm") && shown.contains("+ order"), "{shown}");
}

/// A run has no map and no zones where its machine has no memory.
#[test]
fn empty_sources_draw() {
    for live in [true, false] {
        let mut source = Fake::new(live);
        source.moment.cells.clear();
        source.moment.zones.clear();
        source.moment.notes.clear();
        source.about.zones.clear();
        source.curves.clear();
        let mut app = app(&source, Colors::True);
        for key in ['t', 'z', 'o', 'O', '+', '-', 'd', ' ', '?'] {
            app.press(Key::Char(key), &mut source);
            for size in [(80, 24), (200, 60)] {
                screen(&mut app, &source, size);
            }
        }
    }
}

#[test]
fn one_block_and_many_blocks_draw() {
    for blocks in [1_u64, 1 << 20] {
        let mut source = Fake::new(true);
        source.about.zones.truncate(1);
        source.about.zones[0].blocks = blocks;
        source.moment.zones.truncate(1);
        source.moment.cells = vec![Some(cell(Content::Mixed, 9)); blocks as usize];
        let shown = text(&screen(&mut app(&source, Colors::None), &source, (80, 24)));
        assert!(shown.contains(&format!("mixed {blocks}")), "{shown}");
        assert!(source.position().1 > 0);
    }
}
