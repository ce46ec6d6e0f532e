//! A comparison as HTML.

use pageblock_measure::compare::summary::Summary;
use pageblock_measure::compare::verdict::Judged;
use pageblock_report::certificate;
use pageblock_report::summary::{certainty, legend, letter, number, plain_change, sentence};

use super::{PageComparison, escape};

/// Returns a comparison: the measures that decide as a table, and all tables as text.
pub(super) fn html(comparison: &PageComparison) -> String {
    let PageComparison { summary, tables } = comparison;
    let mut html = "<section class=\"comparison\"><h2>The answer</h2>\n".to_owned();
    let runs = match summary.runs[summary.baseline] {
        1 => String::new(),
        runs => format!(", {runs} {}s of each policy", summary.each),
    };
    html += &format!("<p>{}{runs}</p>\n", escape(&summary.subject));
    for line in &summary.ended {
        html += &format!("<p class=\"warning\">{}</p>\n", escape(line));
    }
    if let Some(certified) = &summary.certificate {
        html += &format!("<p>Certificate: {}</p>\n", escape(&certificate::line(certified)));
    }
    html += &policies(summary);
    html += &table(summary);
    let others = (0..summary.policies.len()).filter(|&at| at != summary.baseline);
    let sentences: String = others.map(|at| sentence(summary, at)).collect();
    html += &format!("<pre>{}{}</pre>\n", escape(&sentences), escape(&legend(summary)));
    if !tables.trim().is_empty() {
        html += "<details><summary>All tables</summary>\n<pre class=\"tables\" tabindex=\"0\">";
        html += &escape(tables);
        html += "</pre></details>\n";
    }
    html + "</section>\n"
}

fn policies(summary: &Summary) -> String {
    let mut html = "<ul class=\"policies\">".to_owned();
    for (at, policy) in summary.policies.iter().enumerate() {
        let base = if at == summary.baseline { " (baseline)" } else { "" };
        html += &format!("<li><b>{}</b> {}{base}</li>", letter(at), escape(policy));
    }
    html + "</ul>\n"
}

fn table(summary: &Summary) -> String {
    let others: Vec<usize> =
        (0..summary.policies.len()).filter(|&at| at != summary.baseline).collect();
    let intervals =
        summary.measures.iter().flat_map(|m| &m.cells).any(|cell| cell.interval.is_some());
    let mut html =
        "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">Measure</th>".to_owned();
    html += &format!("<th scope=\"col\">{}</th>", letter(summary.baseline));
    for &at in &others {
        html += &format!("<th scope=\"col\">{}</th><th scope=\"col\">change</th>", letter(at));
        if intervals {
            html += "<th scope=\"col\">interval</th><th scope=\"col\">p</th>";
        }
    }
    html += "</tr></thead>\n<tbody>\n";
    for measure in &summary.measures {
        html += &format!("<tr><th scope=\"row\">{}</th>", escape(&measure.name));
        html += &format!("<td>{}</td>", number(measure.cells[summary.baseline].mean));
        for &at in &others {
            let cell = &measure.cells[at];
            let (class, words) = match cell.verdict {
                Judged::Better => ("better", " better"),
                Judged::Worse => ("worse", " worse"),
                Judged::Unchanged => ("open", " within 5 %"),
                Judged::Undecided => ("open", " not decided"),
                Judged::Open | Judged::Identical => ("open", ""),
            };
            let text = plain_change(cell);
            html +=
                &format!("<td>{}</td><td class=\"{class}\">{text}{words}</td>", number(cell.mean));
            if intervals {
                let [interval, p] = certainty(cell);
                html += &format!("<td>{interval}</td><td>{}</td>", escape(&p));
            }
        }
        html += "</tr>\n";
    }
    html + "</tbody></table></div>\n"
}
