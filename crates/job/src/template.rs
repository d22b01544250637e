use std::fmt;
use std::ops::Range;

use minijinja::{Environment, Error, ErrorKind, Value};

use taskgate_reach::Origin;

use crate::engine::{EMPTY, LENIENT, STRICT, TRIAL, value_of};
use crate::host;
use crate::scope::Scope;

/// What is wrong with a template or an expression, or with what it met, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(String);

impl Fault {
    pub(crate) fn new(what: impl Into<String>) -> Fault {
        Fault(what.into())
    }

    /// What the language says of its own text. Values are left out: they may be anybody's.
    fn of(error: &Error, source: &str) -> Fault {
        let place = error.range().map(|range| named_at(source, range)).filter(|at| !at.is_empty());
        let place = place.map(|at| format!("`{at}`: ")).unwrap_or_default();
        let what = match error.kind() {
            ErrorKind::UndefinedError => "there is no such value".to_owned(),
            kind => error.detail().map_or_else(|| kind.to_string(), str::to_owned),
        };
        Fault(format!("{place}{what}"))
    }
}

/// The part of a text that was meant, with the name it belongs to: what is missing in `a.b.c` is told as `.b.c`.
fn named_at(source: &str, range: Range<usize>) -> &str {
    let is_name = |c: char| c.is_alphanumeric() || "_.[]'\"".contains(c);
    let before = source.get(..range.start).unwrap_or_default();
    let start = before.trim_end_matches(is_name).len();
    source.get(start..range.end).unwrap_or_default().trim()
}

/// What nobody knows by that name, as far as it is seen without values.
fn unknown(error: &Error, source: &str) -> Result<(), Fault> {
    match error.kind() {
        ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction => {
            Err(Fault::of(error, source))
        }
        _ => Ok(()),
    }
}

/// Where a template's text goes, which decides how values are inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// A URL: every inserted value is percent-encoded.
    Url,
    /// A JSON text: every inserted value is written as JSON, texts with their quotes.
    Json,
    /// A form: every inserted value is percent-encoded.
    Form,
    /// The value of a header.
    Header,
}

impl Escape {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Escape::Url => "url",
            Escape::Json => "json",
            Escape::Form => "form",
            Escape::Header => "header",
        }
    }
}

/// A text with places for values. Whatever the values are, each stays one value.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    source: String,
    escape: Escape,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    ///
    /// What is wrong with it: its syntax, a name that is not known at its place, or a form that no JSON can have.
    pub fn new(source: impl Into<String>, escape: Escape, scope: &Scope<'_>) -> Result<Template, Fault> {
        let template = Template { source: source.into(), escape };
        let named = compiled(&STRICT, &template)?.undeclared_variables(true);
        scope.check(named)?;
        match TRIAL.render_named_str(template.escape.name(), &template.source, ()) {
            Ok(text) if escape == Escape::Json => look_at_form(&text)?,
            Ok(_) => {}
            // What cannot be told without values is told with them.
            Err(error) => unknown(&error, &template.source)?,
        }
        if escape == Escape::Url {
            host::check(&template.source)?;
        }
        Ok(template)
    }

    /// The host and port of a URL that only settings decide about; `None` where an answer says where it is.
    pub(crate) fn settled_origin(&self, values: &Value) -> Option<Origin> {
        host::settled(&self.source, values)
    }

    /// The text with these values.
    ///
    /// # Errors
    ///
    /// What is missing, or cannot be inserted here.
    pub fn render(&self, values: &Value) -> Result<String, Fault> {
        let text = compiled(&STRICT, self)?
            .render(values.clone())
            .map_err(|error| Fault::of(&error, &self.source))?;
        match self.escape {
            Escape::Url => whole_url(text),
            Escape::Json => match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
                Ok(_) => Ok(text),
                Err(error) => Err(Fault(format!("the body with its values is no JSON: {error}"))),
            },
            Escape::Form | Escape::Header => Ok(text),
        }
    }
}

/// A quote too many around a place is the usual slip, and is seen without any values.
fn look_at_form(text: &str) -> Result<(), Fault> {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Err(error) if !text.trim().is_empty() => Err(Fault(format!(
            "this is no JSON: {error}; {{{{ … }}}} inserts a whole JSON value, so no quotes go around it"
        ))),
        _ => Ok(()),
    }
}

fn compiled<'a>(
    environment: &'a Environment<'static>,
    template: &'a Template,
) -> Result<minijinja::Template<'a, 'a>, Fault> {
    environment
        .template_from_named_str(template.escape.name(), &template.source)
        .map_err(|error| Fault::of(&error, &template.source))
}

/// A value must not change which place a URL means: by being empty, or by standing for the place above.
fn whole_url(text: String) -> Result<String, Fault> {
    let end = text.find(['?', '#']).unwrap_or(text.len());
    let (place, rest) = text.split_at(end);
    if place.contains(EMPTY) {
        return Err(Fault::new("an empty text cannot be inserted into the path of a URL"));
    }
    let dots = |part: &str| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    if place.split('/').any(dots) {
        return Err(Fault::new("the path of a URL cannot have a part `.` or `..`"));
    }
    Ok(format!("{place}{}", rest.replace(EMPTY, "")))
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.source)
    }
}

/// A text whose values are all settings, known from the start.
///
/// # Errors
///
/// What is wrong with it.
pub fn settle(text: &str, with: &serde_json::Map<String, serde_json::Value>) -> Result<String, Fault> {
    let scope = Scope { names: &["with"], with, job: &[] };
    let values = Value::from_pairs([("with", value_of(with))]);
    Template::new(text, Escape::Header, &scope)?.render(&values)
}

/// Finds a value in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression(String);

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// What is wrong with it: its syntax, or a name that is not known at its place.
    pub fn new(source: impl Into<String>, scope: &Scope<'_>) -> Result<Expression, Fault> {
        let source = source.into();
        let compiled = STRICT.compile_expression(&source).map_err(|error| Fault::of(&error, &source))?;
        scope.check(compiled.undeclared_variables(true))?;
        // What cannot be told without values is told with them.
        eval(&LENIENT, &source, &Value::UNDEFINED)
            .map_or_else(|error| unknown(&error, &source), |_| Ok(()))?;
        Ok(Expression(source))
    }

    /// What finds the whole body of an answer.
    pub(crate) fn whole_body() -> Expression {
        Expression("body".to_owned())
    }

    /// The value, which must be there.
    ///
    /// # Errors
    ///
    /// That it is missing, or why it cannot be found.
    pub fn required(&self, values: &Value) -> Result<serde_json::Value, Fault> {
        let named = |what: String| Fault(format!("`{}`: {what}", self.0));
        let found = eval(&STRICT, &self.0, values).map_err(|error| named(Fault::of(&error, &self.0).0))?;
        if found.is_undefined() {
            return Err(named("there is no such value".to_owned()));
        }
        serde_json::to_value(&found).map_err(|error| named(error.to_string()))
    }

    /// Whether the value is there and true.
    pub(crate) fn holds(&self, values: &Value) -> bool {
        eval(&LENIENT, &self.0, values).is_ok_and(|value| value.is_true())
    }

    /// The value, if it is there and not null.
    pub fn optional(&self, values: &Value) -> Option<serde_json::Value> {
        let found =
            eval(&LENIENT, &self.0, values).ok().filter(|value| !value.is_undefined() && !value.is_none());
        serde_json::to_value(found?).ok()
    }
}

fn eval(environment: &Environment<'static>, source: &str, values: &Value) -> Result<Value, Error> {
    environment.compile_expression(source)?.eval(values.clone())
}
