use std::io::{IsTerminal, stderr, stdin};

use taskgate_client::{Input, InputAnswer};

use crate::display::Output;
use crate::forms::{self, Asking, choose};

/// What becomes of calls after Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// They are followed on.
    GoOn,
    /// They are cancelled.
    Cancel,
    /// They go on without being followed.
    Detach,
}

/// Whoever sits at the terminal, if anybody does.
#[derive(Debug, Clone, Copy)]
pub struct Person(bool);

impl Person {
    /// Nobody is asked where stdin or stderr is no terminal, or where a program reads what is printed.
    pub fn new(output: Output) -> Person {
        Person(output == Output::Text && stdin().is_terminal() && stderr().is_terminal())
    }

    /// Whether somebody can be asked.
    pub fn is_there(self) -> bool {
        self.0
    }

    /// Asks what the server asks. `None` after Ctrl-C.
    pub async fn ask(self, input: &Input) -> Result<Option<InputAnswer>, String> {
        let params = input.params.as_ref().map(|params| params.as_str().to_owned());
        self.ask_about(Asking { kind: input.kind(), params }).await
    }

    /// The same of a question that stands in a task.
    pub async fn ask_about(self, asking: Asking) -> Result<Option<InputAnswer>, String> {
        // Typing takes as long as it takes, which no thread of the runtime can wait for.
        let asked = tokio::task::spawn_blocking(move || forms::ask(&asking)).await;
        asked.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Asks after Ctrl-C. A second one means to leave.
    pub async fn decide(self, has_task: bool) -> Decision {
        let leave = if has_task {
            "leave: the task goes on, and its handle is printed"
        } else {
            "leave: the call is given up"
        };
        let options = [
            (Decision::GoOn, "keep following"),
            (Decision::Detach, leave),
            (Decision::Cancel, "cancel the call"),
        ];
        let options = options.map(|(decision, name)| (decision, name.to_owned()));
        let chosen = tokio::task::spawn_blocking(move || choose("Interrupted. What now?", options)).await;
        match chosen {
            Ok(Ok(decision)) => decision,
            _ => Decision::Detach,
        }
    }
}
