use comfy_table::presets::NOTHING;
use comfy_table::{Cell, Color, ContentArrangement, Table};

use super::paint::{Paint, Tone};

/// The columns that hold the name of a status, which has a colour.
const COLOURED: [&str; 2] = ["STATUS", "TO"];

/// Rows beneath a head, as wide as the terminal at most. Where there is no terminal, nothing is broken into lines, so that what
/// reads it finds a row a line.
pub fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let is_terminal = super::is_terminal();
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(head);
    table.set_content_arrangement(match is_terminal {
        true => ContentArrangement::Dynamic,
        false => ContentArrangement::Disabled,
    });
    for row in rows {
        table.add_row(head.iter().zip(row).map(|(head, text)| cell(head, text, is_terminal)));
    }
    table.lines().map(|line| format!("{}\n", line.strip_prefix(" ").unwrap_or(&line).trim_end())).collect()
}

fn cell(head: &str, text: String, is_terminal: bool) -> Cell {
    let tone = if COLOURED.contains(&head) { Tone::of_status(&text) } else { None };
    let cell = Cell::new(if is_terminal { text } else { text.replace('\n', " ") });
    match tone {
        Some(tone) if Paint::stdout().is_on() => cell.fg(match tone {
            Tone::Good => Color::DarkGreen,
            Tone::Bad => Color::DarkRed,
            Tone::Alert => Color::DarkYellow,
            Tone::Faint => Color::DarkGrey,
        }),
        _ => cell,
    }
}
