//! A whole question to the person at the terminal.

use std::process::{Command, Stdio};

use serde_json::{Map, Value};
use taskgate_client::{InputAnswer, InputKind};

use super::place::{Place, place_of};
use super::prompt::{self, NoAnswer, choose};
use super::schema::{Form, Kind};
use crate::display::{clean, indented, line};

/// A question, and where it comes from.
#[derive(Debug, Clone)]
pub struct Asking {
    /// What it wants.
    pub kind: InputKind,
    /// Its params, for those that are shown as they are.
    pub params: Option<String>,
}

/// What can be done with a URL.
#[derive(Clone, Copy)]
enum Visit {
    Open,
    Visited,
    Decline,
    Cancel,
}

/// Asks the person. `None` if there was Ctrl-C: then nothing is answered, and the person decides about the call itself.
///
/// # Errors
///
/// If the terminal failed.
pub fn ask(asking: &Asking) -> Result<Option<InputAnswer>, String> {
    loop {
        let asked = match &asking.kind {
            InputKind::Form { message, schema } => form(message, schema),
            InputKind::Url { message, url } => visit(message, url),
            InputKind::Sampling => {
                refuse("wants a model's answer, which can only be given by --answer", asking)
            }
            InputKind::Roots => {
                refuse("wants the roots of this client, which can only be given by --answer", asking)
            }
            InputKind::Other => refuse("asks something that is not known here", asking),
        };
        match asked.or_else(escaped) {
            Ok(Some(answer)) => return Ok(Some(answer)),
            // The person wants to go on with it after all.
            Ok(None) => {}
            Err(NoAnswer::Interrupted | NoAnswer::Escaped) => return Ok(None),
            Err(NoAnswer::Broken(why)) => return Err(why),
        }
    }
}

fn form(message: &str, schema: &Value) -> Result<Option<InputAnswer>, NoAnswer> {
    let form = match Form::read(schema) {
        Ok(form) => form,
        Err(why) => {
            eprintln!("{}\n{why}", indented(message));
            return Ok(Some(InputAnswer::Cancel));
        }
    };
    eprintln!("{}", indented(message));
    if form.0.iter().any(|field| field.required) {
        eprintln!("Fields with * must be filled in.");
    }
    if form.0.is_empty() {
        let options =
            [(InputAnswer::Accept(Value::Object(Map::new())), "accept"), (InputAnswer::Decline, "decline")];
        return choose("Answer", options.map(|(answer, name)| (answer, name.to_owned()))).map(Some);
    }
    let mut content = Map::new();
    for field in &form.0 {
        if let Kind::Text { format: Some(format), .. } = &field.kind
            && format != "password"
        {
            eprintln!("({})", line(format));
        }
        if let Some(value) = prompt::field(field)? {
            content.insert(field.name.clone(), value);
        }
    }
    Ok(Some(InputAnswer::Accept(Value::Object(content))))
}

/// Nothing is opened before the person has seen where it leads.
fn visit(message: &str, url: &str) -> Result<Option<InputAnswer>, NoAnswer> {
    eprintln!("{}\nThe server wants you to visit\n  {}", indented(message), line(url));
    let open = match place_of(url) {
        Place::Web(host) => {
            eprintln!("  which is at {host}");
            Some((Visit::Open, "open it in the browser".to_owned()))
        }
        Place::Doubtful(why) => {
            eprintln!("  {why} It is not opened from here.");
            None
        }
    };
    let others =
        [(Visit::Visited, "I go there myself"), (Visit::Decline, "decline"), (Visit::Cancel, "cancel")];
    let others = others.map(|(visit, name)| (visit, name.to_owned()));
    Ok(Some(match choose("Visit it?", open.into_iter().chain(others))? {
        Visit::Open => {
            open_in_browser(url);
            InputAnswer::Accept(Value::Object(Map::new()))
        }
        Visit::Visited => InputAnswer::Accept(Value::Object(Map::new())),
        Visit::Decline => InputAnswer::Decline,
        Visit::Cancel => InputAnswer::Cancel,
    }))
}

fn open_in_browser(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let opened = Command::new(program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = opened {
        eprintln!("{program} cannot be started ({error}); open the URL yourself");
    }
}

fn refuse(what: &str, asking: &Asking) -> Result<Option<InputAnswer>, NoAnswer> {
    eprintln!("The server {what}:\n{}", clean(asking.params.as_deref().unwrap_or("(nothing more is said)")));
    choose("Answer", [(Some(InputAnswer::Decline), "decline".to_owned())])
}

/// Escape was pressed within a question.
fn escaped(why: NoAnswer) -> Result<Option<InputAnswer>, NoAnswer> {
    match why {
        NoAnswer::Escaped => choose(
            "Leave the form?",
            [
                (Some(InputAnswer::Decline), "decline: say no".to_owned()),
                (Some(InputAnswer::Cancel), "cancel: say nothing".to_owned()),
                (None, "back to the form".to_owned()),
            ],
        ),
        other => Err(other),
    }
}
