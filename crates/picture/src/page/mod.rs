//! The page of `pageblock report`: one file that needs no network.
//!
//! The comparison is plain HTML. The histories are JSON, compressed and in base64, which the page's program
//! (`web/src`, built into `page.js` by `web/build.mjs`) opens and draws.

mod comparison;
mod holders;

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use pageblock_measure::compare::bisect::Answer;
use pageblock_measure::compare::summary::Summary;
use pageblock_report::text::is_obeyed;
use serde::Serialize;

pub use self::holders::PageHolders;
use crate::error::Error;
use crate::plot::{self, Format};
use crate::subject::Subject;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const PROGRAM: &str = include_str!("page.js");

/// Everything that a page shows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Page {
    /// What was compared or recorded, in a line.
    pub title: String,
    /// The command that made the page.
    pub command: String,
    /// The runs and recordings.
    pub subjects: Vec<Subject>,
    /// The comparisons.
    pub comparisons: Vec<PageComparison>,
    /// Who still holds pages at the end of each recording that says so.
    pub holders: Vec<PageHolders>,
    /// The bisections, each as an SVG and as text.
    pub bisections: Vec<PageBisection>,
}

/// A bisection of two kernels.
#[derive(Clone, PartialEq, Debug)]
pub struct PageBisection {
    /// The waterfall, as SVG.
    pub picture: String,
    /// The answer as text.
    pub text: String,
}

impl PageBisection {
    /// Returns a bisection as a page shows it.
    ///
    /// # Errors
    /// [`Error::Draw`] where the library fails.
    pub fn of(answer: &Answer) -> Result<Self, Error> {
        let picture = plot::waterfall(answer, Format::Svg)?;
        let picture = String::from_utf8_lossy(&picture).into_owned();
        Ok(Self { picture, text: pageblock_report::bisect::print(answer) })
    }
}

/// A comparison of runs or of replays.
#[derive(Clone, PartialEq, Debug)]
pub struct PageComparison {
    /// The measures that decide.
    pub summary: Summary,
    /// The tables as text.
    pub tables: String,
}

#[derive(Serialize)]
struct Data<'p> {
    layout: u32,
    subjects: &'p [Subject],
}

/// The layout of the page's data, which its program checks.
const LAYOUT: u32 = 1;

impl Page {
    /// Returns the page as HTML.
    #[must_use]
    pub fn html(&self) -> String {
        let mut main = String::new();
        for comparison in &self.comparisons {
            main += &comparison::html(comparison);
        }
        for holders in &self.holders {
            main += &holders::html(holders);
        }
        for PageBisection { picture, text } in &self.bisections {
            let text = escape(text);
            main += &format!(
                "<section class=\"bisection\"><h2>Which switch did it</h2>\n<div class=\"scroll\">{picture}</div>\n\
                 <pre class=\"tables\" tabindex=\"0\">{text}</pre></section>\n"
            );
        }
        let parts = [
            ("{{title}}", escape(&self.title)),
            ("{{style}}", STYLE.to_owned()),
            ("{{heading}}", escape(&self.title)),
            ("{{comparison}}", main),
            ("{{sources}}", self.sources()),
            ("{{data}}", self.data()),
            ("{{program}}", PROGRAM.to_owned()),
        ];
        let mut html = String::new();
        let mut rest = TEMPLATE;
        for (mark, text) in parts {
            // The template is this crate's own: every mark is in it, in this order.
            let Some((before, after)) = rest.split_once(mark) else { continue };
            html += before;
            html += &text;
            rest = after;
        }
        html + rest
    }

    /// Returns the data of the pictures.
    fn data(&self) -> String {
        let data = Data { layout: LAYOUT, subjects: &self.subjects };
        let mut stream = ZlibEncoder::new(Vec::new(), Compression::best());
        let json = serde_json::to_vec(&data).expect("string keys and finite numbers");
        stream.write_all(&json).expect("a vector can be written");
        STANDARD.encode(stream.finish().expect("a vector can be written"))
    }

    /// Returns how each run came about.
    fn sources(&self) -> String {
        let mut html = "<section id=\"sources\"><h2>How this was made</h2>\n".to_owned();
        html += &format!("<p>This page: <code>{}</code></p>\n<ul>\n", escape(&self.command));
        for subject in &self.subjects {
            html += &format!(
                "<li><b>{}</b>: <code>{}</code>",
                escape(&subject.name),
                escape(&subject.command)
            );
            let certificate = subject.certificate.iter().map(|text| format!("Certificate: {text}"));
            for note in certificate.chain(subject.notes.iter().cloned()) {
                html += &format!("<p class=\"note\">{}</p>", escape(note.trim_end()));
            }
            html += "</li>\n";
        }
        html + "</ul></section>\n"
    }
}

/// Returns text as HTML.
fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html += "&amp;",
            '<' => html += "&lt;",
            '>' => html += "&gt;",
            '"' => html += "&quot;",
            '\'' => html += "&#39;",
            c if is_obeyed(c) => html += &format!("\\u{:04x}", u32::from(c)),
            c => html.push(c),
        }
    }
    html
}

#[cfg(test)]
mod tests;
