//! Words of a command line that hold arguments of the call. No shell reads them: an argument is a word or a part of one,
//! whatever it holds.

use std::fmt;

use serde_json::{Map, Value};

/// A word of a command line as it is configured: text, with `{{name}}` where the argument `name` goes, and `{{?name}}` for
/// nothing, but the word is only there if the argument is, and is not `false`.
///
/// A word is left out when an argument in it is missing or `null`. One that is `{{name}}` and nothing else becomes as many
/// words as the argument has elements, if it is an array. Strings are put in as they are, everything else as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Argument(String),
    Condition(String),
}

/// Words that are there together or not at all, such as an option and its value.
pub type Group = Vec<Word>;

/// Text that is no word: the end of a sentence that begins with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoWord(&'static str);

/// Arguments that cannot be put into the command line, for whoever has made the call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the argument {name:?} {why}")]
pub struct Unfit {
    name: String,
    why: &'static str,
}

impl Word {
    /// Reads a word.
    ///
    /// # Errors
    ///
    /// [`NoWord`] if braces are opened and not closed, hold no name, or the text cannot be a word at all.
    pub fn parse(text: &str) -> Result<Word, NoWord> {
        if text.contains('\0') {
            return Err(NoWord("has a character that no argument can have"));
        }
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, behind) =
                after.split_once("}}").ok_or(NoWord("opens braces with \"{{\" and does not close them"))?;
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            let name = name.trim();
            let (is_condition, name) =
                name.strip_prefix('?').map_or((false, name), |name| (true, name.trim()));
            if name.is_empty() {
                return Err(NoWord("has no name between its braces"));
            }
            pieces.push(if is_condition {
                Piece::Condition(name.to_owned())
            } else {
                Piece::Argument(name.to_owned())
            });
            rest = behind;
        }
        if !rest.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Word(pieces))
    }

    /// This text, whatever it holds.
    pub fn literal(text: impl Into<String>) -> Word {
        Word(vec![Piece::Text(text.into())])
    }

    /// The word, if it is the same for every call.
    pub fn fixed(&self) -> Option<&str> {
        match &*self.0 {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The arguments that it asks for.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Argument(name) | Piece::Condition(name) => Some(name.as_str()),
        })
    }

    /// The words it becomes; `None` if it is left out.
    fn fill(
        &self,
        arguments: &Map<String, Value>,
        options_are_over: bool,
    ) -> Result<Option<Vec<String>>, Unfit> {
        let given = |name: &str| arguments.get(name).filter(|value| !value.is_null());
        if let [Piece::Argument(name)] = &*self.0 {
            let Some(value) = given(name) else { return Ok(None) };
            let values = match value {
                Value::Array(values) => &**values,
                one => std::slice::from_ref(one),
            };
            let words = values.iter().map(|value| word(name, value, !options_are_over));
            return words.collect::<Result<_, _>>().map(Some);
        }
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(fixed) => text.push_str(fixed),
                Piece::Condition(name) => match given(name) {
                    None | Some(Value::Bool(false)) => return Ok(None),
                    Some(_) => {}
                },
                Piece::Argument(name) => match given(name) {
                    None => return Ok(None),
                    Some(Value::Array(_)) => {
                        let why = "is a list, and there is room for one value in a word that has other text";
                        return Err(Unfit { name: name.clone(), why });
                    }
                    // Behind other text it cannot be taken for an option.
                    Some(value) => {
                        text.push_str(&word(name, value, text.is_empty() && !options_are_over)?);
                        fits(name, &text)?;
                    }
                },
            }
        }
        Ok(Some(vec![text]))
    }
}

/// The command line for these arguments.
///
/// # Errors
///
/// [`Unfit`] for an argument that no program can be given as it is meant: with a NUL, too long for a word, or as a word that begins with `-` and
/// would be read as an option. Behind the word `--` there are no options.
pub fn fill(groups: &[Group], arguments: &Map<String, Value>) -> Result<Vec<String>, Unfit> {
    let mut line: Vec<String> = Vec::new();
    let mut options_are_over = false;
    for group in groups {
        let words: Result<Option<Vec<_>>, _> =
            group.iter().map(|word| word.fill(arguments, options_are_over)).collect();
        if let Some(words) = words? {
            line.extend(words.into_iter().flatten());
        }
        options_are_over |= matches!(&**group, [word] if word.fixed() == Some("--"));
    }
    Ok(line)
}

fn word(name: &str, value: &Value, may_be_option: bool) -> Result<String, Unfit> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let unfit = |why| Err(Unfit { name: name.to_owned(), why });
    if text.contains('\0') {
        return unfit("has a character that no argument of a command can have");
    }
    // Numbers are what they are, and no program has options that are numbers below zero.
    if may_be_option && text.starts_with('-') && !value.is_number() {
        return unfit("begins with \"-\", and the command would take it for an option");
    }
    fits(name, &text)?;
    Ok(text)
}

/// The longest word that Linux gives to a program, in bytes.
const LONGEST: usize = 128 * 1024 - 1;

/// Whether a word with this argument in it can be given to a program.
fn fits(name: &str, word: &str) -> Result<(), Unfit> {
    if word.len() <= LONGEST {
        return Ok(());
    }
    let why = "is too long for a word of a command line, which has less than 128 KiB";
    Err(Unfit { name: name.to_owned(), why })
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => f.write_str(text),
            Piece::Argument(name) => write!(f, "{{{{{name}}}}}"),
            Piece::Condition(name) => write!(f, "{{{{?{name}}}}}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn groups(line: &[&[&str]]) -> Vec<Group> {
        line.iter()
            .map(|group| group.iter().map(|word| Word::parse(word).expect("a word")).collect())
            .collect()
    }

    fn filled(line: &[&[&str]], arguments: Value) -> Result<Vec<String>, Unfit> {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        fill(&groups(line), &arguments)
    }

    const LINE: &[&[&str]] = &[
        &["convert"],
        &["--verbose{{?verbose}}"],
        &["-w", "{{width}}"],
        &["--name={{ name }}"],
        &["{{files}}"],
        &["{{spec}}"],
    ];

    #[test]
    fn arguments_are_put_where_they_belong() {
        let line = filled(
            LINE,
            json!({"verbose": true, "width": -3, "name": "-a b; $(c) '\"", "files": ["x", "y z"], "spec": {"a": 1.5}}),
        );
        let want = ["convert", "--verbose", "-w", "-3", "--name=-a b; $(c) '\"", "x", "y z", r#"{"a":1.5}"#];
        assert_eq!(line.expect("a line"), want);
        let bare = filled(LINE, json!({"verbose": false, "name": null, "files": [], "spec": true}));
        assert_eq!(bare.expect("a line"), ["convert", "true"]);
    }

    #[test]
    fn what_a_program_would_take_for_something_else_is_refused() {
        for (line, arguments, name) in [
            (&[&["rm"][..], &["{{files}}"]][..], json!({"files": ["a", "-rf"]}), "files"),
            (&[&["{{f}}"]], json!({"f": "--help"}), "f"),
            (&[&["{{?f}}{{f}}x"]], json!({"f": "-"}), "f"),
            (&[&["--a={{f}}"]], json!({"f": "a\0b"}), "f"),
            (&[&["--a={{f}}"]], json!({"f": ["a"]}), "f"),
            (&[&["{{f}}"]], json!({"f": "x".repeat(128 * 1024)}), "f"),
            (&[&["--a={{f}}"]], json!({"f": "x".repeat(128 * 1024 - 4)}), "f"),
        ] {
            let unfit = filled(line, arguments).expect_err("is refused");
            assert_eq!(unfit.name, name, "{unfit}");
        }
        let behind = filled(&[&["rm"], &["--"], &["{{files}}"]], json!({"files": ["-rf"]}));
        assert_eq!(behind.expect("a line"), ["rm", "--", "-rf"]);
        let longest = filled(&[&["--a={{f}}"]], json!({"f": "x".repeat(128 * 1024 - 5)})).expect("a line");
        let started = std::process::Command::new("true").args(longest).status();
        assert!(started.is_ok_and(|status| status.success()), "what fits can be started");
        // An argument that says "--" ends nothing.
        assert!(filled(&[&["{{a}}"], &["{{b}}"]], json!({"a": "x", "b": "-y"})).is_err());
    }

    #[test]
    fn text_that_is_no_word_is_told() {
        for text in ["{{", "a{{b}", "{{}}", "{{ ? }}", "a\0"] {
            assert!(Word::parse(text).is_err(), "{text}");
        }
        for text in ["", "}}", "{print $1}", "a{{ b }}{{?c}}d}}"] {
            let word = Word::parse(text).expect("a word");
            assert_eq!(Word::parse(&word.to_string()).expect("a word"), word, "{text}");
        }
    }

    proptest! {
        /// Whatever an argument holds, it is one word or refused, and changes no other word.
        #[test]
        fn an_argument_is_one_word(value in ".*") {
            let filled = filled(&[&["a"], &["--b={{b}}"], &["{{b}}"], &["c"]], json!({"b": value}));
            match filled {
                Ok(line) => prop_assert_eq!(line, vec!["a".to_owned(), format!("--b={value}"), value, "c".to_owned()]),
                Err(_) => prop_assert!(value.starts_with('-') || value.contains('\0')),
            }
        }
    }
}
