//! What people and programs see while something is followed. People see it on stderr: stdout is for results.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use taskgate_client::{CallResult, Input, Progress, TaskState};
use taskgate_gateway::Payload;

use super::lines::{self, Line, State};
use crate::display::{Output, Paint, Tone, line, short};
use crate::exit_code::Failure;
use crate::handle::Token;

/// How often a bar is drawn while nothing happens, so that one sees the time go by.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// Where it is shown, and how.
#[derive(Debug)]
pub struct Screen {
    output: Output,
    quiet: bool,
    bars: Option<MultiProgress>,
    calls: Vec<Shown>,
}

/// What is shown of a call before anything is known of it.
const CALLING: &str = "calling";
/// The same of one that was made before.
const LOOKING: &str = "looking for it";

#[derive(Debug)]
struct Shown {
    label: String,
    bar: Option<ProgressBar>,
    status: String,
    message: String,
    poll: Option<Duration>,
    /// What was last said where there are no bars: nothing is said twice.
    said: String,
}

impl Screen {
    /// Bars where stderr is a terminal, lines where it is none.
    pub fn new(output: Output, quiet: bool) -> Screen {
        let has_bars = output == Output::Text && !quiet && stderr().is_terminal();
        Screen { output, quiet, bars: has_bars.then(MultiProgress::new), calls: Vec::new() }
    }

    /// Makes room for a call that is made, or that was made before and is looked for.
    pub fn add(&mut self, label: &str, is_new: bool) {
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner());
            bar.set_style(spinner());
            bar.set_prefix(line(label));
            bar.enable_steady_tick(DRAW_EVERY);
            bar
        });
        self.calls.push(Shown {
            label: line(label),
            bar,
            status: if is_new { CALLING } else { LOOKING }.to_owned(),
            message: String::new(),
            poll: None,
            said: String::new(),
        });
        self.show(self.calls.len() - 1);
    }

    /// The call is a task now.
    pub fn accepted(&mut self, place: usize, token: &Token) -> Result<(), Failure> {
        if let Output::Json = self.output {
            let handle = token.write();
            return self.print(&Line::Accepted {
                handle,
                task_id: &token.handle.task,
                tool: &token.handle.tool,
            });
        }
        // How one stands that was a task before is not known yet.
        if self.calls[place].status == CALLING {
            self.calls[place].status = "working".to_owned();
            self.show(place);
        }
        Ok(())
    }

    /// How the task stands.
    pub fn status(&mut self, place: usize, state: &TaskState) -> Result<(), Failure> {
        if let Output::Json = self.output {
            return self.print(&Line::Status(State::of(state)));
        }
        let call = &mut self.calls[place];
        call.status = lines::status(&state.status).to_owned();
        call.message = state.message.clone().unwrap_or_default();
        call.poll = state.next_poll;
        self.show(place);
        Ok(())
    }

    /// How far it is.
    pub fn progress(&mut self, place: usize, progress: &Progress) -> Result<(), Failure> {
        let Progress { progress: done, total, message, raw } = progress;
        if let Output::Json = self.output {
            return self.print(&Line::Progress { params: raw });
        }
        let call = &mut self.calls[place];
        if let (Some(bar), Some(done), Some(total)) = (&call.bar, done, total)
            && *total > 0.0
        {
            // Thousandths are fine enough for a bar, and servers count in whatever they like.
            bar.set_length(1000);
            bar.set_position((done / total * 1000.0).clamp(0.0, 1000.0) as u64);
            bar.set_style(with_bar());
        }
        if let Some(message) = message {
            call.message.clone_from(message);
        } else if let (Some(done), None) = (done, &call.bar) {
            call.message = total.map_or_else(|| format!("{done}"), |total| format!("{done} of {total}"));
        }
        self.show(place);
        Ok(())
    }

    /// The server logs something.
    pub fn log(&mut self, place: usize, params: &Payload) -> Result<(), Failure> {
        if let Output::Json = self.output {
            return self.print(&Line::Log { params });
        }
        if self.quiet {
            return Ok(());
        }
        self.note(place, &log_line(params));
        Ok(())
    }

    /// The server asks something.
    pub fn asked(&mut self, place: usize, input: &Input) -> Result<(), Failure> {
        if let Output::Json = self.output {
            let (key, method, params) = (&input.key, &input.method, input.params.as_ref());
            return self.print(&Line::Asked { key, method, params });
        }
        self.calls[place].status = "input_required".to_owned();
        self.show(place);
        Ok(())
    }

    /// The server has an answer.
    pub fn answered(&mut self, place: usize, key: &str) -> Result<(), Failure> {
        if let Output::Json = self.output {
            return self.print(&Line::Answered { key });
        }
        self.calls[place].status = "working".to_owned();
        self.show(place);
        Ok(())
    }

    /// Something is tried again.
    pub fn retrying(&mut self, place: usize, why: &str, attempt: u32, wait: Duration) -> Result<(), Failure> {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        if let Output::Json = self.output {
            return self.print(&Line::Retrying { why, attempt, wait_ms });
        }
        self.calls[place].message = format!("{why}; again in {}", short(wait_ms));
        self.show(place);
        Ok(())
    }

    /// It is over.
    pub fn ended(&mut self, place: usize, how: &str) {
        let call = &mut self.calls[place];
        if let Some(bar) = &call.bar {
            bar.set_style(ended());
            bar.finish_with_message(line(how));
        } else if self.output == Output::Text && self.calls.len() > 1 {
            self.note(place, how);
        }
    }

    /// Makes room for a question.
    pub fn pause(&self) {
        if let Some(bars) = &self.bars {
            bars.set_draw_target(ProgressDrawTarget::hidden());
            // Hidden, they would leave what was drawn last.
            eprint!("\r\u{1b}[J");
        }
    }

    /// Shows the calls again.
    pub fn go_on(&self) {
        if let Some(bars) = &self.bars {
            bars.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Takes the bars away where only one call was followed: its result says it all.
    pub fn clear(&self) {
        if let [Shown { bar: Some(bar), .. }] = &self.calls[..] {
            bar.finish_and_clear();
        }
    }

    fn print(&self, line: &Line<'_>) -> Result<(), Failure> {
        if self.quiet { Ok(()) } else { lines::print(line) }
    }

    fn show(&mut self, place: usize) {
        if self.quiet || self.output == Output::Json {
            return;
        }
        let paint = Paint::stderr();
        let call = &mut self.calls[place];
        let message =
            if call.message.is_empty() { String::new() } else { format!(": {}", line(&call.message)) };
        if let Some(bar) = &call.bar {
            let poll = call.poll.map(|poll| u64::try_from(poll.as_millis()).unwrap_or(u64::MAX));
            let poll = poll
                .map(|poll| paint.on(Tone::Faint, &format!(" (asked again in {})", short(poll))))
                .unwrap_or_default();
            bar.set_message(format!("{}{message}{poll}", paint.status(&line(&call.status))));
            return;
        }
        let said = format!("{}{message}", line(&call.status));
        if said != call.said {
            eprintln!("taskgate: {}: {said}", call.label);
            call.said = said;
        }
    }

    /// A line above the bars.
    fn note(&self, place: usize, said: &str) {
        let text = format!("{}: {}", self.calls[place].label, line(said));
        match &self.bars {
            Some(bars) => {
                // Where nothing can be drawn, nothing is lost but this.
                let _ = bars.println(text);
            }
            None => eprintln!("taskgate: {text}"),
        }
    }
}

/// A result for people: its texts, what else there is in a line each, or the structured content where there is nothing else.
pub fn result(result: &CallResult) -> String {
    let read: Value = serde_json::from_str(result.raw.as_str()).unwrap_or_default();
    let blocks = read.get("content").and_then(Value::as_array).into_iter().flatten();
    let shown: Vec<String> = blocks.map(block).collect();
    match (&result.structured, shown.is_empty()) {
        (_, false) => shown.join("\n"),
        (Some(structured), true) => format!("{structured:#}"),
        (None, true) => result.raw.as_str().to_owned(),
    }
}

fn block(block: &Value) -> String {
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    let resource =
        |name: &str| block.get("resource").and_then(|inner| inner.get(name)).and_then(Value::as_str);
    match (text("type"), text("text").or_else(|| resource("text"))) {
        (Some("text" | "resource"), Some(text)) => text.to_owned(),
        (kind, _) => {
            let what = text("mimeType").or_else(|| resource("mimeType")).unwrap_or_default();
            let place = text("uri").or_else(|| resource("uri")).unwrap_or_default();
            let words = [kind.unwrap_or("something"), what, place];
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            format!("[{}; --output json has it whole]", line(&words.join(" ")))
        }
    }
}

/// A log message for people.
pub fn log_line(params: &Payload) -> String {
    let read: Value = serde_json::from_str(params.as_str()).unwrap_or_default();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let level = read.get("level").map(&text).unwrap_or_default();
    let logger = read.get("logger").map(|name| format!(" {}", text(name))).unwrap_or_default();
    line(&format!("{level}{logger}: {}", read.get("data").map(text).unwrap_or_default()))
}

fn spinner() -> ProgressStyle {
    style("{spinner} {prefix} {wide_msg} {elapsed}")
}

fn with_bar() -> ProgressStyle {
    style("{spinner} {prefix} [{bar:20}] {percent}% {wide_msg} {elapsed}")
}

fn ended() -> ProgressStyle {
    style("  {prefix} {wide_msg} {elapsed}")
}

fn style(template: &str) -> ProgressStyle {
    // A template of ours is well formed; a test says so.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_well_formed() {
        for template in [
            "{spinner} {prefix} {wide_msg} {elapsed}",
            "{spinner} {prefix} [{bar:20}] {percent}% {wide_msg} {elapsed}",
            "  {prefix} {wide_msg} {elapsed}",
        ] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn what_is_no_text_is_named() {
        let shown = |raw: serde_json::Value| {
            let structured = raw.get("structuredContent").cloned();
            let raw = Payload::from_value(&raw).expect("JSON");
            result(&CallResult { raw, is_error: false, structured })
        };
        let mixed = serde_json::json!({"content": [
            {"type": "text", "text": "one\ntwo"},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "resource_link", "uri": "file:///x"},
            {"type": "resource", "resource": {"uri": "a:b", "text": "inside"}},
        ]});
        let lines = "one\ntwo\n[image image/png; --output json has it whole]\n\
                     [resource_link file:///x; --output json has it whole]\ninside";
        assert_eq!(shown(mixed), lines);
        assert_eq!(shown(serde_json::json!({"structuredContent": {"a": 1}})), "{\n  \"a\": 1\n}");
        assert_eq!(shown(serde_json::json!({"other": 1})), "{\"other\":1}");
    }

    #[test]
    fn a_log_message_is_a_line() {
        let line = |text: &str| log_line(&Payload::parse(text.to_owned()).expect("JSON"));
        assert_eq!(line(r#"{"level":"error","logger":"db","data":"gone\u001b[2J"}"#), "error db: gone [2J");
        assert_eq!(line(r#"{"level":"info","data":{"a":1}}"#), "info: {\"a\":1}");
    }
}
