//! Progress on standard error, where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::in_line;

/// A bar of a long command. It draws nothing where standard error is no terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for `total` of a unit, such as events.
    pub(crate) fn new(what: &str, total: u64, unit: &str) -> Self {
        let template =
            format!("{{msg}} {{wide_bar}} {{human_pos}} of {{human_len}} {unit}, {{eta}} left");
        // A template that is wrong shows as the default bar.
        let style = ProgressStyle::with_template(&template)
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        Self { bar: ProgressBar::new(total).with_style(style).with_message(in_line(what)) }
    }

    /// Sets the total, where it was not known before.
    pub(crate) fn resize(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// Sets how many are done. Cheap, but not for every event: call it every few thousand.
    pub(crate) fn set(&self, done: u64) {
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
