//! How things look: for people at a terminal, or for programs.

mod harmless;
mod paint;
mod table;

use std::io::{IsTerminal, stdout};

pub use harmless::{body, clean, indented, json_line, line};
pub use paint::{Paint, Tone};
pub use table::table;

/// For whom something is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// Objects of JSON, one a line.
    Json,
}

/// Whether stdout is a terminal.
pub fn is_terminal() -> bool {
    stdout().is_terminal()
}

/// A duration that is short to read: its two longest units.
pub fn short(millis: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
    let Some(first) = UNITS.iter().position(|(_, unit)| millis >= *unit) else {
        return format!("{millis}ms");
    };
    let mut rest = millis;
    let parts = UNITS.iter().skip(first).take(2).map(|(name, unit)| {
        let count = rest / unit;
        rest %= unit;
        (count, name)
    });
    parts.filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count}{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_units_are_enough() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (61_500, "1m1s"),
            (3_600_000, "1h"),
            (90_061_000, "1d1h"),
            (59_999, "59s"),
        ] {
            assert_eq!(short(millis), text);
        }
    }
}
