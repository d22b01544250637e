//! Configurations and templates: a configuration that is shown is read as the one it shows, a value that is put into a template stays one
//! value, whatever it is.

use std::path::Path;

use arbitrary::{Result, Unstructured};
use serde_json::{Value, json};
use taskgate_gateway::{Config, format_duration, format_size, parse_duration, parse_size};
use taskgate_job::{Escape, Scope, Template};

use crate::pieces::text;

pub fn check(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    if kind % 2 == 0 {
        if let Ok(text) = std::str::from_utf8(rest) {
            config(text);
        }
    } else {
        let _ = templates(&mut Unstructured::new(rest));
    }
}

fn read(text: &str) -> std::result::Result<Config, taskgate_gateway::ConfigErrors> {
    let env = |name: &str| (name == "SECRET").then(|| "sesame".to_owned());
    Config::parse_with(text, "taskgate.toml", Path::new("/etc/taskgate"), &env)
}

fn config(text: &str) {
    // What is written in the file itself is no secret to whoever reads the file.
    let gives_away = |said: &str| said.contains("sesame") && !text.contains("sesame");
    match read(text) {
        Ok(config) => {
            let shown = config.to_toml();
            assert!(!gives_away(&shown), "a secret is shown");
            let again = read(&shown).unwrap_or_else(|errors| panic!("{errors}\n{shown}"));
            assert_eq!(again.to_toml(), shown);
        }
        Err(errors) => {
            let said = errors.to_string();
            assert!(!errors.problems.is_empty() && !gives_away(&said));
        }
    }
    if let Ok(duration) = parse_duration(text) {
        assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
    }
    if let Ok(size) = parse_size(text) {
        assert_eq!(parse_size(&format_size(size)), Ok(size));
    }
}

fn templates(input: &mut Unstructured<'_>) -> Result<()> {
    let (one, two) = (text(input)?, text(input)?);
    let number = input.arbitrary::<i64>()?;
    let args = json!({ "a": one, "b": two, "n": number, "o": { one.clone(): [two, null, true] } });
    let settings = serde_json::Map::new();
    let scope = Scope { names: &["args"], with: &settings, job: &[] };
    let values = minijinja::Value::from(minijinja::value::Serde(json!({ "args": args })));
    let render = |source: &str, escape| Template::new(source, escape, &scope).unwrap().render(&values);

    let body = r#"{"a": {{ args.a }}, "l": [{{ args.n }}, {{ args.o }}], "t": {{ args.a ~ args.b }}}"#;
    let body: Value = serde_json::from_str(&render(body, Escape::Json).unwrap()).unwrap();
    assert_eq!(body, json!({ "a": one, "l": [number, args["o"]], "t": format!("{one}{two}") }));

    let form = render("a={{ args.a }}&b={{ args.b }}", Escape::Form).unwrap();
    let members: Vec<(String, String)> =
        form.split('&').map(|pair| decoded(pair.split_once('=').unwrap())).collect();
    assert_eq!(members, [("a".to_owned(), one.clone()), ("b".to_owned(), two.clone())]);

    match render("http://host/jobs/{{ args.a }}/stop?q={{ args.b }}", Escape::Url) {
        Ok(url) => {
            let (place, query) = url.split_once('?').unwrap();
            let parts: Vec<&str> = place.split('/').collect();
            assert_eq!((&parts[..4], parts[5], parts.len()), (&["http:", "", "host", "jobs"][..], "stop", 6));
            assert_eq!(decoded((parts[4], query)), (one.clone(), format!("q={two}")));
            assert!(!matches!(one.as_str(), "" | "." | ".."));
            assert!(url.is_ascii() && !url.contains(['#', ' ', '\n', '\\']));
        }
        Err(_) => assert!(matches!(one.as_str(), "" | "." | ".."), "{one:?} is refused"),
    }
    Ok(())
}

fn decoded((name, value): (&str, &str)) -> (String, String) {
    let decode = |text: &str| {
        let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
        while let [byte, after @ ..] = rest {
            match (byte, after) {
                (b'%', [high, low, after @ ..]) => {
                    let digits = [*high, *low];
                    bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
                    rest = after;
                }
                _ => {
                    bytes.push(*byte);
                    rest = after;
                }
            }
        }
        String::from_utf8(bytes).unwrap()
    };
    (decode(name), decode(value))
}
