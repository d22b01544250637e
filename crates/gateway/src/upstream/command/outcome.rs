//! What has become of a command, as the outcome of a call.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use taskgate_detached::{Cause, Exit, Interruption, Status};
use taskgate_engine::Ending;
use taskgate_task::Outcome;
use taskgate_wire::{RawObject, RpcError};

use super::{CommandTool, Output};
use crate::upstream::ending::cut;

/// The longest summary, in characters: it is a status line.
const LONGEST_SUMMARY: usize = 300;
/// How much of stderr stands in the text beside it being whole in the structured content, in characters.
const STDERR_SHOWN: usize = 4000;

/// What a command has written.
pub struct Written {
    pub stdout: taskgate_detached::Output,
    pub stderr: taskgate_detached::Output,
}

/// A command that has ended.
pub fn ended(tool: &CommandTool, status: &Status, written: &Written) -> Ending {
    match &status.cause {
        Cause::Itself => Ending::Finished(result(tool, status.exit, written)),
        Cause::Stopped => failed("The command was stopped.", written),
        Cause::Deadline => failed("The command was stopped at its run limit.", written),
        Cause::Shutdown => {
            failed("The work was interrupted: its supervisor was told to end, as by a shutdown.", written)
        }
        Cause::NotStarted(why) => failed(why, written),
    }
}

/// A command of which it is not known how it ended.
pub fn interrupted(why: Interruption, written: &Written) -> Ending {
    match why {
        Interruption::Reboot => failed("The work was interrupted: the machine was restarted.", written),
        Interruption::Killed => failed("The work was interrupted: its supervisor was killed.", written),
    }
}

/// A command that there is nothing to tell of but this.
pub fn lost(message: &str) -> Ending {
    error(message, None)
}

fn failed(message: &str, written: &Written) -> Ending {
    error(message, Some(structured(None, written)))
}

fn error(message: &str, data: Option<Value>) -> Ending {
    let error = RpcError::internal(message);
    let error = match data {
        Some(data) => error.with_data(&data),
        None => error,
    };
    Ending::Finished(Outcome::Error { body: error.to_payload(), summary: short(message) })
}

fn result(tool: &CommandTool, exit: Option<Exit>, written: &Written) -> Outcome {
    let code = match exit {
        Some(Exit::Code(code)) => Some(code),
        Some(Exit::Signal(_)) | None => None,
    };
    let mut is_error = !code.is_some_and(|code| tool.success.contains(&code));
    let meaning = code.and_then(|code| tool.exit_codes.get(&code));
    let stdout = written.stdout.text();
    let mut read = None;
    let mut content = vec![json!({ "type": "text", "text": stdout })];
    let mut summary = None;
    if is_error {
        let how = match exit {
            Some(Exit::Code(code)) => match meaning {
                Some(meaning) => format!("{meaning} (exit code {code})"),
                None => format!("The command ended with exit code {code}."),
            },
            Some(Exit::Signal(signal)) => format!("The command was ended by signal {signal}."),
            None => "The command ended, and how is not known.".to_owned(),
        };
        let stderr = written.stderr.text();
        let last = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
        summary = Some(short(&last.map_or_else(|| how.clone(), |line| format!("{how} {line}"))));
        let text = if last.is_some() { format!("{how}\n{}", end_of(&stderr)) } else { how };
        content.push(json!({ "type": "text", "text": text }));
    } else {
        if let Some(meaning) = meaning {
            content.push(json!({ "type": "text", "text": meaning }));
            summary = Some(short(meaning));
        }
        if tool.output == Output::Json {
            match object(tool, &stdout, written.stdout.is_cut()) {
                Ok(object) => read = Some(object),
                Err(why) => {
                    is_error = true;
                    summary = Some(why.clone());
                    content.push(json!({ "type": "text", "text": why }));
                }
            }
        }
    }
    let body = || {
        let mut body = RawObject::default();
        body.set("content", to_raw_value(&content)?);
        let structured = read.map_or_else(|| to_raw_value(&structured(exit, written)), Ok)?;
        body.set("structuredContent", structured);
        body.set("isError", to_raw_value(&is_error)?);
        body.to_payload()
    };
    match body() {
        Ok(body) => Outcome::Result { body, is_error, summary },
        Err(error) => {
            let error =
                RpcError::internal(format!("The command's output cannot be written as JSON: {error}"));
            Outcome::Error { body: error.to_payload(), summary: error.message }
        }
    }
}

/// What a command has written that writes a JSON object, as it has spelled it.
fn object(tool: &CommandTool, stdout: &str, is_cut: bool) -> Result<Box<RawValue>, String> {
    let why = match serde_json::from_str::<Box<RawValue>>(stdout) {
        Ok(object) if !is_cut && object.get().starts_with('{') => {
            let checked = tool.output_schema.as_ref().map_or(Ok(()), |schema| schema.check(stdout));
            return match checked {
                Ok(()) => Ok(object),
                Err(why) => Err(short(&format!(
                    "What the command has written is not as its output_schema says: {why}"
                ))),
            };
        }
        _ if is_cut => "it is longer than output_limit".to_owned(),
        Ok(_) => "it is no object".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(short(&format!("The command has not written a JSON object on stdout: {why}")))
}

fn structured(exit: Option<Exit>, written: &Written) -> Value {
    let mut all = match exit {
        Some(Exit::Code(code)) => json!({ "exitCode": code }),
        Some(Exit::Signal(signal)) => json!({ "signal": signal }),
        None => json!({}),
    };
    all["stdout"] = written.stdout.text().into();
    all["stderr"] = written.stderr.text().into();
    all["truncated"] = (written.stdout.is_cut() || written.stderr.is_cut()).into();
    all
}

fn short(text: &str) -> String {
    cut(text, LONGEST_SUMMARY)
}

/// The end of a text: of what a program says last, most is about why it ended.
fn end_of(text: &str) -> String {
    match text.char_indices().rev().nth(STDERR_SHOWN) {
        Some((before, _)) => format!("[…]{}", &text[before..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use taskgate_task::Payload;

    use super::*;

    fn tool() -> CommandTool {
        CommandTool::new("tool", ["true"])
    }

    fn written(stdout: &str, stderr: &str) -> Written {
        let whole = |text: &str| taskgate_detached::Output { head: text.into(), ..Default::default() };
        Written { stdout: whole(stdout), stderr: whole(stderr) }
    }

    fn status(cause: Cause, exit: Option<Exit>) -> Status {
        let boot_id = String::new();
        Status { cause, exit, begun_ms: 0, ended_ms: 0, boot_id, stdout_lost: 0, stderr_lost: 0 }
    }

    fn value(payload: &Payload) -> Value {
        serde_json::from_str(payload.as_str()).expect("JSON")
    }

    #[test]
    fn a_success_is_its_output() {
        let ending =
            ended(&tool(), &status(Cause::Itself, Some(Exit::Code(0))), &written("done\n", "careful\n"));
        let Ending::Finished(Outcome::Result { body, is_error: false, summary: None }) = ending else {
            panic!("{ending:?}")
        };
        let expected = json!({
            "content": [{ "type": "text", "text": "done\n" }],
            "structuredContent": { "exitCode": 0, "stdout": "done\n", "stderr": "careful\n", "truncated": false },
            "isError": false,
        });
        assert_eq!(value(&body), expected);
    }

    /// CASE 6: whoever looks finds why, in the line as in the text.
    #[test]
    fn a_failure_says_how_and_why() {
        let exits =
            [(Some(Exit::Code(3)), "exit code 3"), (Some(Exit::Signal(9)), "signal 9"), (None, "not known")];
        for (exit, word) in exits {
            let ending = ended(&tool(), &status(Cause::Itself, exit), &written("half", "why\nbecause\n\n"));
            let Ending::Finished(Outcome::Result { body, is_error: true, summary: Some(summary) }) = ending
            else {
                panic!("{ending:?}")
            };
            assert!(summary.contains(word) && summary.ends_with("because"), "{summary}");
            let body = value(&body);
            assert_eq!(body["content"][0]["text"], "half");
            let text = body["content"][1]["text"].as_str().expect("a text");
            assert!(text.contains(word) && text.contains("why\nbecause"), "{text}");
        }
    }

    #[test]
    fn exit_codes_mean_what_they_are_said_to_mean() {
        let tool = CommandTool {
            success: vec![0, 3],
            exit_codes: [(2, "There is no such order.".to_owned()), (3, "Nothing to do.".to_owned())].into(),
            ..tool()
        };
        let ended =
            |code| match ended(&tool, &status(Cause::Itself, Some(Exit::Code(code))), &written("out", "err"))
            {
                Ending::Finished(Outcome::Result { body, is_error, summary }) => {
                    (value(&body), is_error, summary)
                }
                other => panic!("{other:?}"),
            };
        let (body, is_error, summary) = ended(2);
        assert!(is_error && body["isError"] == true && body["structuredContent"]["exitCode"] == 2);
        assert_eq!(summary.as_deref(), Some("There is no such order. (exit code 2) err"));
        let (body, is_error, summary) = ended(3);
        assert!(!is_error && body["isError"] == false);
        assert_eq!(
            (summary.as_deref(), &body["content"][1]["text"]),
            (Some("Nothing to do."), &json!("Nothing to do."))
        );
        assert!(!ended(0).1 && ended(1).1);
    }

    #[test]
    fn an_object_on_stdout_is_the_structured_content() {
        let tool = CommandTool { output: Output::Json, ..tool() };
        let ended = |code, stdout: &str, cut: u64| {
            let mut written = written(stdout, "");
            written.stdout.left_out = cut;
            match ended(&tool, &status(Cause::Itself, Some(Exit::Code(code))), &written) {
                Ending::Finished(Outcome::Result { body, is_error, .. }) => (value(&body), is_error),
                other => panic!("{other:?}"),
            }
        };
        let (body, is_error) = ended(0, "{\"b\": [1, null], \"a\": 1.0}\n", 0);
        assert!(!is_error);
        assert_eq!(body["structuredContent"], json!({"b": [1, null], "a": 1.0}));
        assert_eq!(body["content"], json!([{"type": "text", "text": "{\"b\": [1, null], \"a\": 1.0}\n"}]));
        let odd = r#"{"n": 12345678901234567890123, "e": 1E+2, "s": "\ud800", "a": 1, "a": 2}"#;
        match super::ended(&tool, &status(Cause::Itself, Some(Exit::Code(0))), &written(odd, "")) {
            Ending::Finished(Outcome::Result { body, .. }) => {
                assert!(body.as_str().contains(odd), "{body:?}")
            }
            other => panic!("{other:?}"),
        }
        for (stdout, cut, why) in [("[1]", 0, "no object"), ("", 0, "EOF"), ("{}", 7, "output_limit")] {
            let (body, is_error) = ended(0, stdout, cut);
            let text = body["content"][1]["text"].as_str().expect("a text");
            assert!(is_error && text.contains(why), "{stdout}: {text}");
            assert_eq!(body["structuredContent"]["exitCode"], 0);
        }
        // One that failed may write what it likes.
        let (body, is_error) = ended(1, "no JSON", 0);
        assert!(is_error && body["structuredContent"]["stdout"] == "no JSON", "{body}");
    }

    #[test]
    fn an_interruption_is_an_error_with_what_there_was() {
        for (why, word) in [(Interruption::Reboot, "machine"), (Interruption::Killed, "supervisor")] {
            let ending = interrupted(why, &written("half", ""));
            let Ending::Finished(Outcome::Error { body, summary }) = ending else { panic!("{ending:?}") };
            assert!(summary.contains("interrupted") && summary.contains(word), "{summary}");
            assert_eq!(value(&body)["data"]["stdout"], "half");
        }
    }

    #[test]
    fn long_texts_are_cut_for_people() {
        let long = "é".repeat(STDERR_SHOWN + 5);
        let ending = ended(&tool(), &status(Cause::Itself, Some(Exit::Code(1))), &written("", &long));
        let Ending::Finished(Outcome::Result { body, summary: Some(summary), .. }) = ending else {
            panic!("{ending:?}")
        };
        assert_eq!(summary.chars().count(), LONGEST_SUMMARY + 1);
        let body = value(&body);
        let text = body["content"][1]["text"].as_str().expect("a text");
        assert!(text.contains("[…]é") && text.chars().count() < STDERR_SHOWN + 100);
        assert_eq!(body["structuredContent"]["stderr"], long);
    }
}
