//! Policies by what they give and what they cost, as text.

use crate::error::Error;
use crate::plot::Point;
use crate::series::short;

const COLUMNS: usize = 60;
const LINES: usize = 18;

pub(super) fn text(points: &[Point]) -> Result<String, Error> {
    let Some(first) = points.first() else {
        return Err(Error::Nothing("no run counts huge pages and the work for them"));
    };
    let most = points.iter().map(|point| point.work).fold(1.0, f64::max);
    let mut grid = vec![vec![' '; COLUMNS + 1]; LINES + 1];
    for point in points {
        let column = (point.work / most * COLUMNS as f64).round() as usize;
        let line = LINES - ((point.huge / 100.0).clamp(0.0, 1.0) * LINES as f64).round() as usize;
        let place = &mut grid[line][column.min(COLUMNS)];
        *place = if *place == ' ' { point.letter } else { '*' };
    }
    let mut text = format!("{} [%]\n", first.huge_name);
    for (at, line) in grid.into_iter().enumerate() {
        let label = match at {
            0 => "100",
            _ if at == LINES / 2 => " 50",
            _ if at == LINES => "  0",
            _ => "   ",
        };
        let line: String = line.into_iter().collect();
        text += format!("{label} |{line}").trim_end();
        text.push('\n');
    }
    let most = short(most);
    text += &format!("    +{}\n     0{most:>60}\n", "-".repeat(COLUMNS + 1));
    text += "     pages reclaimed, scanned by compaction and moved\n";
    for letter in points
        .iter()
        .map(|point| (point.letter, &point.name))
        .collect::<std::collections::BTreeMap<_, _>>()
    {
        text += &format!("{} {}\n", letter.0, letter.1);
    }
    Ok(text + "* several\n")
}
