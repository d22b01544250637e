//! Follows calls to their ends: shows what happens, asks what is asked, and obeys Ctrl-C.

mod carry;
mod end;
mod lines;
mod person;
mod screen;
mod signals;

use taskgate_client::{CallError, CallResult, Event, Input, PendingCall};
use tokio::sync::mpsc;

use crate::display::Output;
use crate::endpoint::Named;
use crate::exit_code::{ExitCode, Failure};
use crate::forms::AnswerFile;
use crate::handle::Token;
use carry::{Carried, Told, Wish};
pub use end::{End, are_over, conclude, failure};
pub use lines::{Line, State, print, status};
use person::Decision;
pub use person::Person;
use screen::Screen;
pub use screen::log_line;
pub use signals::Signals;

/// How much may wait to be shown. What else comes waits at its call, which forgets what is old.
const WAITING: usize = 64;

/// What is wanted of whoever follows.
#[derive(Debug)]
pub struct Options {
    /// For whom it is shown.
    pub output: Output,
    /// Whether it ends as soon as there is a handle.
    pub detach: bool,
    /// Whether nothing is shown on the way.
    pub quiet: bool,
    /// Whether it ends when what was open is answered.
    pub until_answered: bool,
    /// The answers of a script.
    pub answers: AnswerFile,
}

/// A call that is to be followed.
#[derive(Debug)]
pub struct Followed {
    /// What people know it by.
    pub label: String,
    /// How its server was named.
    pub named: Named,
    /// Whether the tool is called, rather than gone on with.
    pub is_new: bool,
    /// The call.
    pub call: PendingCall,
}

/// Follows them all to their ends, in their order.
///
/// # Errors
///
/// If stdout cannot be written to.
pub async fn follow(
    calls: Vec<Followed>,
    options: Options,
    signals: &mut Signals,
) -> Result<Vec<End>, Failure> {
    let (tell, told) = mpsc::channel(WAITING);
    let screen = Screen::new(options.output, options.quiet);
    let mut following = Following {
        screen,
        person: Person::new(options.output),
        options,
        calls: Vec::new(),
        left_open: Vec::new(),
        told,
    };
    for (place, call) in calls.into_iter().enumerate() {
        following.screen.add(&call.label, call.is_new);
        following.calls.push(Carried::new(place, call, tell.clone()));
    }
    drop(tell);
    following.run(signals).await?;
    let ends = following.calls.into_iter().map(|call| call.end.unwrap_or(End::Detached(None)));
    Ok(ends.collect())
}

struct Following {
    screen: Screen,
    person: Person,
    options: Options,
    calls: Vec<Carried>,
    /// Questions that nobody here can answer. They live until nothing is followed any more: dropped before, they would be refused.
    left_open: Vec<Input>,
    told: mpsc::Receiver<(usize, Told)>,
}

impl Following {
    async fn run(&mut self, signals: &mut Signals) -> Result<(), Failure> {
        while self.calls.iter().any(|call| call.end.is_none()) {
            tokio::select! {
                told = self.told.recv() => match told {
                    Some((place, told)) => self.hear(place, told).await?,
                    None => return Ok(()),
                },
                signal = signals.next() => {
                    if signal.is_interrupt() && self.person.is_there() {
                        self.decide().await?;
                    } else {
                        self.wish_all(Wish::Detach);
                    }
                }
            }
        }
        self.screen.clear();
        Ok(())
    }

    async fn hear(&mut self, place: usize, told: Told) -> Result<(), Failure> {
        match told {
            Told::Event(event) => self.event(place, event).await,
            Told::Ended(outcome) => self.ended(place, outcome),
            Told::Detached(handle) => {
                let token = handle.map(|handle| self.token(place, handle));
                self.screen.ended(place, "left to go on");
                if self.calls[place].end.is_none() {
                    self.calls[place].end = Some(End::Detached(token));
                }
                Ok(())
            }
        }
    }

    async fn event(&mut self, place: usize, event: Event) -> Result<(), Failure> {
        match event {
            Event::Accepted(handle) => {
                let token = self.token(place, handle);
                self.screen.accepted(place, &token)?;
                self.calls[place].token = Some(token);
                if self.options.detach {
                    self.calls[place].wish(Wish::Detach);
                }
                Ok(())
            }
            Event::Status(state) => self.screen.status(place, &state),
            Event::Progress(progress) => self.screen.progress(place, &progress),
            Event::Log(params) => self.screen.log(place, &params),
            Event::Asked(input) => self.asked(place, input).await,
            Event::Answered(key) => {
                self.screen.answered(place, &key)?;
                self.calls[place].open.retain(|open| *open != key);
                if self.options.until_answered && self.calls[place].open.is_empty() {
                    self.calls[place].end = Some(End::Answered);
                    self.calls[place].wish(Wish::Detach);
                }
                Ok(())
            }
            Event::Retrying { why, attempt, wait } => self.screen.retrying(place, &why, attempt, wait),
            Event::Done => Ok(()),
        }
    }

    /// Answers a question, from the file first, or sees to it that it stays open.
    async fn asked(&mut self, place: usize, input: Input) -> Result<(), Failure> {
        self.screen.asked(place, &input)?;
        let kind = input.kind();
        match self.options.answers.take(&input.key, &kind) {
            Ok(Some(answer)) => {
                self.calls[place].open.push(input.key.clone());
                input.reply_with(answer);
                return Ok(());
            }
            Ok(None) => {}
            Err(wrong) => return self.leave_open(place, input, wrong),
        }
        if !self.person.is_there() {
            let later =
                if self.calls[place].token.is_some() { ", or later with `taskgate answer`" } else { "" };
            let why = format!("nobody is here to be asked; give the answer with --answer{later}");
            return self.leave_open(place, input, why);
        }
        loop {
            self.screen.pause();
            let answer = self.person.ask(&input).await;
            self.screen.go_on();
            match answer {
                Ok(Some(answer)) => {
                    self.calls[place].open.push(input.key.clone());
                    input.reply_with(answer);
                    return Ok(());
                }
                Ok(None) => {
                    self.decide().await?;
                    // What is left or cancelled is not asked about any more.
                    if self.calls[place].has_wish() {
                        self.left_open.push(input);
                        return Ok(());
                    }
                }
                Err(why) => return self.leave_open(place, input, why),
            }
        }
    }

    fn leave_open(&mut self, place: usize, input: Input, why: String) -> Result<(), Failure> {
        let call = &mut self.calls[place];
        call.end = Some(End::NeedsInput { token: call.token.clone(), key: input.key.clone(), why });
        call.wish(Wish::Detach);
        self.left_open.push(input);
        Ok(())
    }

    /// Ctrl-C: what is to become of the calls.
    async fn decide(&mut self) -> Result<(), Failure> {
        self.screen.pause();
        let has_task = self.calls.iter().any(|call| call.end.is_none() && call.token.is_some());
        let decision = self.person.decide(has_task).await;
        self.screen.go_on();
        match decision {
            Decision::GoOn => {}
            Decision::Cancel => self.wish_all(Wish::Cancel),
            Decision::Detach => self.wish_all(Wish::Detach),
        }
        Ok(())
    }

    fn wish_all(&mut self, wish: Wish) {
        for call in self.calls.iter_mut().filter(|call| call.end.is_none()) {
            call.wish(wish);
        }
    }

    fn ended(&mut self, place: usize, outcome: Result<CallResult, CallError>) -> Result<(), Failure> {
        let call = &mut self.calls[place];
        let token = call.token.clone();
        if call.end.is_none() {
            self.screen.ended(place, &end::word(&outcome));
            call.end = Some(End::of(outcome, token));
        }
        Ok(())
    }

    fn token(&self, place: usize, handle: taskgate_client::Handle) -> Token {
        Token::new(handle, &self.calls[place].named)
    }
}

/// A failure of this program itself.
fn broken(message: impl std::fmt::Display) -> Failure {
    Failure::new(ExitCode::Failure, message)
}
