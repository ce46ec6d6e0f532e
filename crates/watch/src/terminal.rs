//! The view in a terminal, which is left as it was found.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Once;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use crate::app::{Action, App, Key};
use crate::error::Error;
use crate::keyboard::{Input, Keyboard};
use crate::look::Look;
use crate::screen::draw;
use crate::source::Source;

/// How often a request to end is looked for.
const LOOK: Duration = Duration::from_millis(250);

/// How the view ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The user left.
    Quit,
    /// Ctrl-C, a request to end, or a terminal that is gone.
    Interrupted,
}

/// The terminal while it is ours; given back when it is dropped.
struct Screen {
    terminal: Terminal<CrosstermBackend<io::Stdout>>,
}

/// Gives the terminal back.
fn restore() {
    // There is nobody to tell where this fails.
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = io::stdout().flush();
}

impl Screen {
    fn take() -> Result<Self, Error> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            // Its text would be lost with the screen.
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        enable_raw_mode()?;
        let taken = execute!(io::stdout(), EnterAlternateScreen, Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match taken {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                restore();
                Err(error.into())
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Shows sources in the terminal until the user leaves, the first one first. `stop` is asked whether to end; moments are
/// saved in `folder`.
///
/// # Errors
/// If the terminal fails, or this machine cannot be read any more.
pub fn run(
    sources: &mut [Box<dyn Source>],
    look: Look,
    interval: Duration,
    folder: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<End, Error> {
    let Some(first) = sources.first() else { return Ok(End::Quit) };
    let mut app = App::new(first.as_ref(), look, sources.len());
    let mut screen = Screen::take()?;
    let keyboard = Keyboard::listen();
    let mut shown = 0;
    let mut last = Instant::now();
    let mut changed = true;
    loop {
        let source = sources[shown].as_mut();
        if changed {
            screen.terminal.draw(|frame| draw(frame, &mut app, source))?;
            changed = false;
        }
        let due = app.pace(source, interval).map(|pace| pace.saturating_sub(last.elapsed()));
        match keyboard.next(due.unwrap_or(LOOK).min(LOOK))? {
            Input::Event(Event::Resize(..)) => changed = true,
            Input::Event(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                let Some(key) = key_of(key.code, key.modifiers) else { continue };
                match app.press(key, source) {
                    Action::Quit => return Ok(End::Quit),
                    Action::Interrupt => return Ok(End::Interrupted),
                    Action::Save => save(&mut screen, &mut app, source, folder, stop)?,
                    Action::Next => shown = app.next_run(),
                    Action::Draw => {}
                    Action::Nothing => continue,
                }
                changed = true;
            }
            Input::Event(_) | Input::None => {}
            Input::Gone => return Ok(End::Interrupted),
        }
        if stop() {
            return Ok(End::Interrupted);
        }
        let source = sources[shown].as_mut();
        let is_due = app.pace(source, interval).is_some_and(|pace| last.elapsed() >= pace);
        if is_due {
            // Moments that were missed are not made up for.
            last = Instant::now();
            if source.about().live {
                source.tick()?;
                app.refresh(source);
            } else {
                app.play(source);
            }
            changed = true;
        }
    }
}

fn save(
    screen: &mut Screen,
    app: &mut App,
    source: &mut dyn Source,
    folder: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<(), Error> {
    if source.about().live {
        app.say("saving this moment: some seconds ...".to_owned());
        screen.terminal.draw(|frame| draw(frame, app, source))?;
    }
    app.say(match source.save(folder, stop) {
        Ok(path) => {
            format!("saved {}: for pageblock forecast, and pageblock report", path.display())
        }
        Err(error) => format!("not saved: {error}"),
    });
    Ok(())
}

fn key_of(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    if modifiers.contains(KeyModifiers::CONTROL) {
        return match code {
            KeyCode::Char('c') => Some(Key::Interrupt),
            // A terminal that shows something else is drawn again.
            KeyCode::Char('l') => Some(Key::Char('\u{c}')),
            _ => None,
        };
    }
    Some(match code {
        KeyCode::Char(character) => Key::Char(character),
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Tab => Key::Tab,
        _ => return None,
    })
}
