//! How far a command is, read off its output.

use std::fmt;

use regex::Regex;

/// A pattern for lines that say how far a command is: a regular expression with groups named `progress`, `total` and `message`,
/// of which at least one of `progress` and `message` is there.
#[derive(Clone)]
pub struct Pattern(Regex);

/// Text that is no such pattern: the end of a sentence that begins with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPattern {
    /// It is no regular expression, or one that is too large.
    #[error("is no regular expression: {0}")]
    Syntax(String),
    /// It finds nothing that could be told.
    #[error("has neither a group (?<progress>…) nor (?<message>…)")]
    Useless,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Told {
    /// How far the command is.
    pub progress: Option<f64>,
    /// Of how much.
    pub total: Option<f64>,
    /// In words.
    pub message: Option<String>,
}

impl Pattern {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// [`NoPattern`].
    pub fn new(text: &str) -> Result<Pattern, NoPattern> {
        let regex = Regex::new(text).map_err(|error| {
            let text = error.to_string();
            // The text before is a drawing of several lines.
            let last = text.lines().last().unwrap_or_default();
            NoPattern::Syntax(last.trim_start_matches("error: ").to_owned())
        })?;
        let has = |name: &str| regex.capture_names().flatten().any(|known| known == name);
        if has("progress") || has("message") { Ok(Pattern(regex)) } else { Err(NoPattern::Useless) }
    }

    /// What this line says; `None` if it is about something else.
    pub fn read(&self, line: &str) -> Option<Told> {
        let found = self.0.captures(line)?;
        let number =
            |name: &str| found.name(name)?.as_str().parse().ok().filter(|number: &f64| number.is_finite());
        let told = Told {
            progress: number("progress"),
            total: number("total"),
            message: found.name("message").map(|text| text.as_str().trim().to_owned()),
        };
        (told.progress.is_some() || told.message.is_some()).then_some(told)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        let pattern =
            Pattern::new(r"^(?<message>\w+): (?<progress>[\d.]+)(/(?<total>\d+))?").expect("a pattern");
        let told =
            |progress, total, message: &str| Told { progress, total, message: Some(message.to_owned()) };
        assert_eq!(pattern.read("page: 3/12 of it"), Some(told(Some(3.0), Some(12.0), "page")));
        assert_eq!(pattern.read("page: 3.5"), Some(told(Some(3.5), None, "page")));
        assert_eq!(pattern.read("page: 1.2.3"), Some(told(None, None, "page")));
        assert_eq!(pattern.read("warning"), None);
        let numbers = Pattern::new(r"(?<progress>\S+)%").expect("a pattern");
        assert_eq!(numbers.read("inf%"), None);
        assert_eq!(numbers.read("40%").and_then(|told| told.progress), Some(40.0));
    }

    #[test]
    fn what_is_no_pattern_is_told_in_one_line() {
        assert_eq!(Pattern::new(r"\d+ of \d+"), Err(NoPattern::Useless));
        let Err(NoPattern::Syntax(why)) = Pattern::new("(?<progress>") else { panic!("no error") };
        assert_eq!(why, "unclosed group");
    }
}
