//! Single questions to the person at the terminal. They are asked on stderr, since stdout is for results.

use std::fmt;

use inquire::validator::Validation;
use inquire::{InquireError, MultiSelect, Password, PasswordDisplayMode, Select, Text};
use serde_json::Value;

use super::schema::{Choice, Field, Kind};
use crate::display::line;

/// What is said where a value may be left out.
const LEFT_OUT: &str = "(leave it out)";

/// Why a question has no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// Escape.
    Escaped,
    /// Ctrl-C.
    Interrupted,
    /// The terminal failed.
    Broken(String),
}

impl From<InquireError> for NoAnswer {
    fn from(error: InquireError) -> Self {
        match error {
            InquireError::OperationCanceled => NoAnswer::Escaped,
            InquireError::OperationInterrupted => NoAnswer::Interrupted,
            other => NoAnswer::Broken(other.to_string()),
        }
    }
}

/// Something to choose, with its name.
struct Named<T>(T, String);

impl<T> fmt::Display for Named<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}

/// Lets the person choose one of these.
pub fn choose<T>(question: &str, options: impl IntoIterator<Item = (T, String)>) -> Result<T, NoAnswer> {
    let options = options.into_iter().map(|(value, name)| Named(value, name)).collect();
    let chosen = Select::new(question, options).without_filtering().prompt()?;
    Ok(chosen.0)
}

/// Asks for the value of a field. `None` if it is left out.
pub fn field(field: &Field) -> Result<Option<Value>, NoAnswer> {
    let mark = if field.required { " *" } else { "" };
    let question = format!("{}{mark}", line(&field.title));
    let help = help(field);
    match &field.kind {
        Kind::Flag => {
            let mut options = vec![(Some(Value::Bool(true)), "yes"), (Some(Value::Bool(false)), "no")];
            if field.default == Some(Value::Bool(false)) {
                options.reverse();
            }
            one(field, &question, &help, options.into_iter().map(|(value, name)| (value, name.to_owned())))
        }
        Kind::One(choices) => {
            let value = |choice: &Choice| Some(Value::String(choice.value.clone()));
            let mut options: Vec<_> =
                choices.iter().map(|choice| (value(choice), line(&choice.title))).collect();
            // What is taken where nothing is said is where the cursor is.
            if let Some(place) =
                options.iter().position(|(value, _)| *value == field.default && value.is_some())
            {
                let default = options.remove(place);
                options.insert(0, default);
            }
            one(field, &question, &help, options)
        }
        Kind::Many { choices, .. } => many(field, choices, &question, &help),
        Kind::Text { .. } | Kind::Number { .. } if field.is_secret() => {
            let typed = Password::new(&question)
                .with_help_message(&help)
                .with_display_mode(PasswordDisplayMode::Hidden)
                .without_confirmation()
                .with_validator(validator(field))
                .prompt()?;
            Ok(read(field, &typed))
        }
        Kind::Text { .. } | Kind::Number { .. } => {
            let default = match &field.default {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => String::new(),
            };
            let typed = Text::new(&question)
                .with_help_message(&help)
                .with_initial_value(&line(&default))
                .with_validator(validator(field))
                .prompt()?;
            Ok(read(field, &typed))
        }
    }
}

fn one(
    field: &Field,
    question: &str,
    help: &str,
    options: impl IntoIterator<Item = (Option<Value>, String)>,
) -> Result<Option<Value>, NoAnswer> {
    let mut all: Vec<_> = options.into_iter().map(|(value, name)| Named(value, name)).collect();
    if !field.required {
        let place = if field.default.is_none() { 0 } else { all.len() };
        all.insert(place, Named(None, LEFT_OUT.to_owned()));
    }
    let chosen = Select::new(question, all).with_help_message(help).without_filtering().prompt()?;
    Ok(chosen.0)
}

fn many(field: &Field, choices: &[Choice], question: &str, help: &str) -> Result<Option<Value>, NoAnswer> {
    let defaults = field.default.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
    let is_default = |choice: &Choice| defaults.iter().any(|value| value.as_str() == Some(&choice.value));
    let chosen: Vec<usize> =
        choices.iter().enumerate().filter(|(_, choice)| is_default(choice)).map(|(place, _)| place).collect();
    let options = choices.iter().map(|choice| Named(choice.value.clone(), line(&choice.title))).collect();
    let checked = field.clone();
    let picked = MultiSelect::new(question, options)
        .with_help_message(help)
        .with_default(&chosen)
        .with_validator(move |picked: &[inquire::list_option::ListOption<&Named<String>>]| {
            let value: Value = picked.iter().map(|option| Value::String(option.value.0.clone())).collect();
            let is_left_out = picked.is_empty() && !checked.required;
            Ok(match checked.check(&value) {
                Err(wrong) if !is_left_out => Validation::Invalid(line(&wrong).into()),
                _ => Validation::Valid,
            })
        })
        .prompt()?;
    let value: Value = picked.into_iter().map(|option| Value::String(option.0)).collect();
    let is_left_out = value.as_array().is_some_and(Vec::is_empty) && !field.required;
    Ok(if is_left_out { None } else { Some(value) })
}

fn validator(
    field: &Field,
) -> impl Fn(&str) -> Result<Validation, inquire::CustomUserError> + Clone + 'static {
    let field = field.clone();
    move |typed: &str| {
        if typed.is_empty() && !field.required {
            return Ok(Validation::Valid);
        }
        Ok(match field.read(typed) {
            Ok(_) => Validation::Valid,
            Err(wrong) => Validation::Invalid(line(&wrong).into()),
        })
    }
}

fn read(field: &Field, typed: &str) -> Option<Value> {
    if typed.is_empty() && !field.required { None } else { field.read(typed).ok() }
}

fn help(field: &Field) -> String {
    let escape = "Esc to decline or cancel";
    match &field.description {
        Some(description) => format!("{} ({escape})", line(description)),
        None => escape.to_owned(),
    }
}
