//! `taskgate answer`: what a task asks is answered, and then it is left to go on.

use taskgate_client::{Handle, InputAnswer, InputKind, TaskState, TaskStatus};
use taskgate_gateway::Payload;

use super::subject::{Subject, find_one};
use super::{answers, connect_to_follow, options, or_stop};
use crate::args::client::Answer;
use crate::display::Output;
use crate::exit_code::{ExitCode, Failure};
use crate::follow::{End, Followed, Options, Person, Signals, conclude, failure, follow};
use crate::forms::{AnswerFile, Asking};

/// Answers what is open.
pub async fn run(args: Answer, signals: &mut Signals) -> Result<(), Failure> {
    let Subject { handle, target } = find_one(&args.words, &args.server)?;
    let (mut file, able) = answers(&args.look)?;
    let (client, _remembered) =
        or_stop(signals, connect_to_follow(&target, args.look.deadline, able)).await?;
    let state =
        or_stop(signals, async { client.get(&handle).await.map_err(|error| failure(&error)) }).await?;
    let done = match state.status {
        TaskStatus::InputRequired if state.inputs.is_empty() && args.key.is_some() => Err(Failure::new(
            ExitCode::Invalid,
            "--key: this server does not say what a task asks before it asks it; leave the key out",
        )),
        // Where the questions are in the state, they can be answered one by one; else they come as soon as the task is followed.
        TaskStatus::InputRequired if state.inputs.is_empty() => {
            let call = client.resume(handle);
            let followed = Followed { label: "answer".to_owned(), named: target.named, is_new: false, call };
            let options = Options { until_answered: true, ..options(&args.look, file) };
            let ends = follow(vec![followed], options, signals).await?;
            match &ends[..] {
                // That it was left is what was wanted.
                [End::Answered] => told(args.look.output, 1),
                ends => conclude(ends, args.look.output, false),
            }
        }
        TaskStatus::InputRequired => one_by_one(&client, &handle, &state, &mut file, &args).await,
        _ => Err(Failure::new(ExitCode::Failure, "the task asks nothing at the moment")),
    };
    client.close().await;
    done
}

async fn one_by_one(
    client: &taskgate_client::Client,
    handle: &Handle,
    state: &TaskState,
    file: &mut AnswerFile,
    args: &Answer,
) -> Result<(), Failure> {
    let person = Person::new(args.look.output);
    let mut count = 0;
    let wanted = |key: &str| args.key.as_ref().is_none_or(|wanted| wanted == key);
    for (key, request) in state.inputs.iter().filter(|(key, _)| wanted(key)) {
        let asking = asking(request);
        let needs = |why: String| Failure::new(ExitCode::NeedsInput, format!("the question {key:?}: {why}"));
        let answer: InputAnswer = match file.take(key, &asking.kind).map_err(needs)? {
            Some(answer) => answer,
            None if person.is_there() => match person.ask_about(asking).await.map_err(needs)? {
                Some(answer) => answer,
                None => return Err(Failure::new(ExitCode::Detached, "left; the question stays open")),
            },
            None => {
                return Err(needs("nobody is here to be asked; give the answer with --answer".to_owned()));
            }
        };
        client.answer(handle, key, answer).await.map_err(|error| failure(&error))?;
        count += 1;
    }
    if count == 0 {
        return Err(Failure::new(ExitCode::Failure, "the task asks nothing under that key"));
    }
    told(args.look.output, count)
}

/// A question as it stands in a task.
fn asking(request: &Payload) -> Asking {
    #[derive(serde::Deserialize)]
    struct Request {
        method: String,
        #[serde(default)]
        params: Option<Payload>,
    }
    let read = serde_json::from_str::<Request>(request.as_str());
    let (kind, params) = match read {
        Ok(Request { method, params }) => (InputKind::read(&method, params.as_ref()), params),
        Err(_) => (InputKind::Other, Some(request.clone())),
    };
    Asking { kind, params: params.map(|params| params.as_str().to_owned()) }
}

fn told(output: Output, count: usize) -> Result<(), Failure> {
    match output {
        Output::Json => crate::say::say(format_args!("{}\n", serde_json::json!({ "answered": count }))),
        Output::Text => {
            eprintln!("taskgate: answered");
            Ok(())
        }
    }
}
