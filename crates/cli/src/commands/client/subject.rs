//! Which task is meant: by its handle, or by its server and its id.

use taskgate_client::Handle;

use crate::args::server::Server;
use crate::endpoint::{self, Named, Target};
use crate::exit_code::{ExitCode, Failure};
use crate::handle::Token;

/// A task, and its server.
#[derive(Debug)]
pub struct Subject {
    /// The way to it.
    pub handle: Handle,
    /// The server.
    pub target: Target,
}

/// The tasks that are meant: handles each with its own server, or one task of a server that is named beside it.
pub fn find(words: &[String], server: &Server) -> Result<Vec<Subject>, Failure> {
    match words {
        [word, task] if !Token::is_one(word) => {
            no_second(server)?;
            Ok(vec![at(&endpoint::read(word), task, server)?])
        }
        [task] if !server.command.is_empty() => Ok(vec![at(&Named::Command, task, server)?]),
        words => words.iter().map(|word| by_handle(word, server)).collect(),
    }
}

/// The one task that is meant.
pub fn find_one(words: &[String], server: &Server) -> Result<Subject, Failure> {
    let mut subjects = find(words, server)?;
    match (subjects.pop(), subjects.is_empty()) {
        (Some(subject), true) => Ok(subject),
        _ => Err(invalid("one task at a time: give a handle, or a server and the id of a task")),
    }
}

/// The server that is named by a word, or by the command after --.
pub fn server_of(word: Option<&str>, server: &Server) -> Result<Target, Failure> {
    match (word, server.command.is_empty()) {
        (Some(word), true) => endpoint::find(&endpoint::read(word), server),
        (None, false) => endpoint::find(&Named::Command, server),
        (Some(_), false) => Err(two()),
        (None, true) => Err(invalid("which server? give a URL, a name, or a command after --")),
    }
}

/// Refuses a command where a server is named already.
pub fn no_second(server: &Server) -> Result<(), Failure> {
    if server.command.is_empty() { Ok(()) } else { Err(two()) }
}

fn two() -> Failure {
    invalid("there are two servers: one that is named, and the command after --")
}

fn at(named: &Named, task: &str, server: &Server) -> Result<Subject, Failure> {
    let target = endpoint::find(named, server)?;
    let handle = if Token::is_one(task) {
        let handle = read(task)?.handle;
        is_of(&handle, &target)?;
        handle
    } else {
        // How it was made is not known; the server of today's connection is asked.
        let (endpoint, task) = (target.endpoint.identity(), task.to_owned());
        Handle { endpoint, version: String::new(), task, session: None, tool: String::new(), created: 0 }
    };
    Ok(Subject { handle, target })
}

fn by_handle(word: &str, server: &Server) -> Result<Subject, Failure> {
    let Token { handle, named } = read(word)?;
    if named == Named::Command {
        return Err(invalid(format!(
            "the handle does not say how to reach {}, which may be a secret: give the server again, before the handle or as a command after --",
            handle.endpoint
        )));
    }
    no_credentials(server, &format!("the handle leads to {}", handle.endpoint))?;
    let target = endpoint::find(&named, server)?;
    is_of(&handle, &target)?;
    Ok(Subject { handle, target })
}

/// Refuses credentials for a server that nobody has named: nobody sees where a handle leads, and whoever wrote it would get them.
pub fn no_credentials(server: &Server, where_to: &str) -> Result<(), Failure> {
    if server.header.is_empty() && server.bearer_env.is_none() {
        return Ok(());
    }
    Err(invalid(format!(
        "--header and --bearer-env go only to a server that you name, and {where_to}: give it, too"
    )))
}

/// Compares before anything is started or sent: a server that is not the task's has nothing to do with it.
fn is_of(handle: &Handle, target: &Target) -> Result<(), Failure> {
    let identity = target.endpoint.identity();
    if handle.endpoint == identity {
        return Ok(());
    }
    Err(invalid(format!("the handle is of a task at {}, and this server is {identity}", handle.endpoint)))
}

fn read(word: &str) -> Result<Token, Failure> {
    Token::read(word).map_err(|wrong| invalid(format!("{word:?} {wrong}")))
}

fn invalid(message: impl std::fmt::Display) -> Failure {
    Failure::new(ExitCode::Invalid, message)
}
