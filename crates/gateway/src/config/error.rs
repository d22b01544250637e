//! What is wrong with a configuration file, shown at the place where it is wrong.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

/// Everything that is wrong with a configuration file, in the order of the file.
///
/// [`Display`](fmt::Display) shows each problem with its line and a mark under the faulty part, ready for a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The file, as it was named to us.
    pub file: String,
    /// The problems; never empty.
    pub problems: Vec<ConfigProblem>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Where it is wrong; `None` if that is no place: the file cannot be read, or something is missing altogether.
    pub place: Option<FilePlace>,
    /// What is wrong.
    pub what: String,
    /// What is allowed, or what was probably meant.
    pub help: Option<String>,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlace {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// How many characters are meant, at least 1. What goes on in further lines does not count.
    pub width: usize,
    /// The line's text.
    pub text: String,
}

impl ConfigErrors {
    /// A file that could not be read at all.
    pub(super) fn unreadable(file: String, what: String) -> Self {
        ConfigErrors { file, problems: vec![ConfigProblem { place: None, what, help: None }] }
    }
}

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            problem.show(&self.file, f)?;
            writeln!(f)?;
        }
        match self.problems.len() {
            1 => write!(f, "1 problem in {}", self.file),
            count => write!(f, "{count} problems in {}", self.file),
        }
    }
}

impl ConfigProblem {
    fn show(&self, file: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(FilePlace { line, column, width, text }) = &self.place else {
            writeln!(f, "{file}: {}", self.what)?;
            return self.help.iter().try_for_each(|help| writeln!(f, "  = {help}"));
        };
        let number = line.to_string();
        let gutter = " ".repeat(number.len());
        // A tab in the line is repeated under it, so that the mark stays in its column however wide tabs are.
        let until = text.chars().take(column - 1);
        let indent: String = until.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        writeln!(f, "{file}:{line}:{column}: {}", self.what)?;
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{number} | {text}")?;
        writeln!(f, "{gutter} | {indent}{}", "^".repeat(*width))?;
        self.help.iter().try_for_each(|help| writeln!(f, "{gutter} = {help}"))
    }
}

impl FilePlace {
    fn of(source: &str, span: &Range<usize>) -> FilePlace {
        let end_of_file = source.trim_end().len();
        // What is missing at the end is shown behind the last thing that is there.
        let start = floor_char(source, if span.start > end_of_file { end_of_file } else { span.start });
        let before = &source[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let text = source[line_start..].lines().next().unwrap_or_default();
        let column = source[line_start..start].chars().count() + 1;
        let end = floor_char(source, span.end).clamp(start, (line_start + text.len()).max(start));
        FilePlace {
            line: before.matches('\n').count() + 1,
            column,
            width: source[start..end].chars().count().max(1),
            text: text.to_owned(),
        }
    }
}

/// The nearest boundary of a character at or before an offset.
fn floor_char(source: &str, offset: usize) -> usize {
    (0..=offset.min(source.len())).rev().find(|at| source.is_char_boundary(*at)).unwrap_or(0)
}

/// The problems found so far.
///
/// They can be added to through a shared reference, so that every part of the reader and the checker can hold one.
#[derive(Debug, Default)]
pub(super) struct Problems(RefCell<Vec<Found>>);

#[derive(Debug)]
struct Found {
    span: Option<Range<usize>>,
    what: String,
    help: Option<String>,
}

impl Problems {
    /// Notes a problem.
    pub(super) fn add(&self, span: Range<usize>, what: impl Into<String>) {
        self.0.borrow_mut().push(Found { span: Some(span), what: what.into(), help: None });
    }

    /// Notes a problem and what helps against it.
    pub(super) fn add_with_help(&self, span: Range<usize>, what: impl Into<String>, help: impl Into<String>) {
        self.0.borrow_mut().push(Found { span: Some(span), what: what.into(), help: Some(help.into()) });
    }

    /// Notes that something is missing in the file altogether.
    pub(super) fn add_missing(&self, what: impl Into<String>, help: impl Into<String>) {
        self.0.borrow_mut().push(Found { span: None, what: what.into(), help: Some(help.into()) });
    }

    /// Nothing if there are no problems, otherwise all of them in the order of the file.
    pub(super) fn into_result(self, source: &str, file: &str) -> Result<(), ConfigErrors> {
        let mut found = self.0.into_inner();
        if found.is_empty() {
            return Ok(());
        }
        // The sort is stable: problems at one place stay in the order in which they were found.
        found.sort_by_key(|found| found.span.as_ref().map(|span| span.start));
        let problem = |found: Found| ConfigProblem {
            place: found.span.map(|span| FilePlace::of(source, &span)),
            what: found.what,
            help: found.help,
        };
        Err(ConfigErrors { file: file.to_owned(), problems: found.into_iter().map(problem).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str, span: Range<usize>) -> String {
        let problems = Problems::default();
        problems.add(span, "wrong");
        problems.into_result(source, "f.toml").expect_err("there is a problem").to_string()
    }

    #[test]
    fn the_mark_counts_characters_and_keeps_tabs() {
        let source = "a = 1\n\tü = \"é\"\n";
        let start = source.find('"').expect("a quote");
        let text = shown(source, start..start + "\"é\"".len());
        assert_eq!(text, "f.toml:2:6: wrong\n  |\n2 | \tü = \"é\"\n  | \t    ^^^\n\n1 problem in f.toml");
    }

    #[test]
    fn a_span_past_the_end_or_over_several_lines_is_shown_on_one_line() {
        assert!(shown("a = [", 99..120).starts_with("f.toml:1:6: wrong\n"), "past the end");
        assert!(shown("a = [\n1,\n]\n", 4..10).contains("\n  |     ^\n"), "several lines");
        assert!(shown("", 0..0).starts_with("f.toml:1:1: wrong\n"), "an empty file");
    }
}
