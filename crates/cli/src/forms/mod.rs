//! Answers to what a server asks: from a file, or from the person at the terminal.

mod ask;
mod check;
mod file;
mod place;
mod prompt;
mod schema;
#[cfg(test)]
mod tests;

pub use ask::{Asking, ask};
pub use file::AnswerFile;
pub use prompt::choose;
