use std::io::{IsTerminal, stderr, stdout};

/// Colour for one stream: on a terminal, unless `NO_COLOR` is set to anything.
#[derive(Debug, Clone, Copy)]
pub struct Paint(bool);

/// What a text is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// It went well.
    Good,
    /// It did not.
    Bad,
    /// Somebody has to do something.
    Alert,
    /// It matters less.
    Faint,
}

impl Paint {
    /// For what goes to stdout.
    pub fn stdout() -> Paint {
        Paint(stdout().is_terminal() && is_wanted())
    }

    /// For what goes to stderr.
    pub fn stderr() -> Paint {
        Paint(stderr().is_terminal() && is_wanted())
    }

    /// Whether there are colours.
    pub fn is_on(self) -> bool {
        self.0
    }

    /// The text in its colour.
    pub fn on(self, tone: Tone, text: &str) -> String {
        if !self.0 {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Alert => "33",
            Tone::Faint => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// The name of a status in the colour of what it means.
    pub fn status(self, status: &str) -> String {
        Tone::of_status(status).map_or_else(|| status.to_owned(), |tone| self.on(tone, status))
    }
}

impl Tone {
    /// What the status with this name is about, if that deserves a colour.
    pub fn of_status(status: &str) -> Option<Tone> {
        match status {
            "completed" => Some(Tone::Good),
            "failed" | "cancelled" => Some(Tone::Bad),
            "input_required" => Some(Tone::Alert),
            _ => None,
        }
    }
}

fn is_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}
