//! Which server is meant: a URL, a command, or a name from the configuration of a host.

mod expand;
mod hosts;
mod jsonc;
#[cfg(test)]
mod tests;
mod trusted;

use std::path::PathBuf;

use taskgate_client::Endpoint;
use taskgate_gateway::{Auth, HttpServer, Secret, ServerUrl, StdioCommand, redact};

use crate::args::server::Server;
use crate::exit_code::{ExitCode, Failure};
use hosts::{Entry, Surroundings};

/// A server, and how it was named.
#[derive(Debug, Clone)]
pub struct Target {
    /// How to reach it.
    pub endpoint: Endpoint,
    /// What a handle may say of it.
    pub named: Named,
}

/// How a server was named, without what nobody else may see: neither headers nor command lines are in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// By its URL.
    Url(String),
    /// By its name in the configuration of a host.
    Name(String),
    /// By a command line, which may hold secrets.
    Command,
}

impl Named {
    /// How a server with this identity can be found again, if it had this name.
    pub fn again(identity: &str, name: Option<String>) -> Named {
        match name {
            Some(name) => Named::Name(name),
            // What is not in the identity of a server may be a secret, and has to be given again.
            None if identity.contains("://") && !identity.contains('#') => Named::Url(identity.to_owned()),
            None => Named::Command,
        }
    }

    /// Its name in the configuration of a host.
    pub fn name(&self) -> Option<&str> {
        match self {
            Named::Name(name) => Some(name),
            Named::Url(_) | Named::Command => None,
        }
    }
}

/// Finds the server that is meant.
///
/// # Errors
///
/// What is wrong with how it was named, and where it was looked for.
pub fn find(named: &Named, server: &Server) -> Result<Target, Failure> {
    let surroundings = Surroundings::of_this_process();
    find_in(named, server, &surroundings)
}

fn find_in(named: &Named, server: &Server, surroundings: &Surroundings) -> Result<Target, Failure> {
    let endpoint = match named {
        Named::Url(url) => Endpoint::Url(with_options(at(url)?, server, surroundings)?),
        Named::Command => Endpoint::Command(command(server)?),
        Named::Name(name) => match hosts::find(name, server.config.as_deref(), surroundings)? {
            Entry::Http { url, headers } => {
                let mut http = at(&url)?;
                for (name, value) in headers {
                    put(&mut http, &name, value)?;
                }
                Endpoint::Url(with_options(http, server, surroundings)?)
            }
            Entry::Command { program, args, env, cwd } => {
                refuse_options(server)?;
                let cwd = cwd.map(PathBuf::from);
                Endpoint::Command(StdioCommand { env, cwd, ..StdioCommand::new(program).args(args) })
            }
        },
    };
    Ok(Target { endpoint, named: named.clone() })
}

/// How a word of the command line names a server.
pub fn read(word: &str) -> Named {
    if word.contains("://") { Named::Url(word.to_owned()) } else { Named::Name(word.to_owned()) }
}

fn command(server: &Server) -> Result<StdioCommand, Failure> {
    refuse_options(server)?;
    let mut words = server.command.iter().cloned();
    let program = words.next().ok_or_else(|| invalid("there is no command after the --"))?;
    Ok(StdioCommand::new(program).args(words))
}

/// Credentials go with requests, and a command has none.
fn refuse_options(server: &Server) -> Result<(), Failure> {
    if server.header.is_empty() && server.bearer_env.is_none() {
        return Ok(());
    }
    Err(invalid("--header and --bearer-env are for servers that are a URL; a command has its environment"))
}

fn at(url: &str) -> Result<HttpServer, Failure> {
    let parsed = ServerUrl::parse(url).map_err(|wrong| invalid(format!("the server's URL {wrong}")))?;
    Ok(HttpServer::new(parsed))
}

fn with_options(mut http: HttpServer, server: &Server, around: &Surroundings) -> Result<HttpServer, Failure> {
    for header in &server.header {
        put(&mut http, &header.name, header.value.clone())?;
    }
    if let Some(variable) = &server.bearer_env {
        let token = around.variable(variable).filter(|token| !token.is_empty());
        let token =
            token.ok_or_else(|| invalid(format!("--bearer-env: the variable {variable} is not set")))?;
        http.headers.retain(|(name, _)| name.as_str() != "authorization");
        redact::know(&token);
        http.auth = Auth::Bearer(Secret::Text(token));
    }
    let has_credentials = http.auth != Auth::None || !http.headers.is_empty();
    if has_credentials && http.url.is_exposed() && !server.plain_http {
        return Err(invalid(format!(
            "{} is not encrypted, and others could read the credentials on the way; use https:// or, if the way is safe, --plain-http",
            http.url
        )));
    }
    http.plain_http = server.plain_http;
    Ok(http)
}

/// Sets a header, in place of one of the same name.
fn put(http: &mut HttpServer, name: &str, value: String) -> Result<(), Failure> {
    let parsed = name.parse().map_err(|_| invalid(format!("{name:?} is no name of a header")))?;
    http.headers.retain(|(other, _)| *other != parsed);
    if redact::is_secret_name(name) {
        // Of one with a scheme, what follows it is the secret.
        [value.as_str()].into_iter().chain(value.split_whitespace().skip(1)).for_each(redact::know);
    }
    http.headers.push((parsed, Secret::Text(value)));
    Ok(())
}

fn invalid(message: impl std::fmt::Display) -> Failure {
    Failure::new(ExitCode::Invalid, message)
}
