use serde_json::{Value, json};
use taskgate_client::{InputAnswer, InputKind};

use super::file::AnswerFile;
use super::schema::{Form, Kind};

fn schema() -> Value {
    json!({"type": "object", "required": ["name", "size"], "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 5},
        "mail": {"type": "string", "format": "email"},
        "site": {"type": "string", "format": "uri"},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "ratio": {"type": "number", "maximum": 0.5},
        "sure": {"type": "boolean", "default": true},
        "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["red", "green"]},
        "shape": {"oneOf": [{"const": "c", "title": "circle"}, {"const": "s"}]},
        "extras": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"anyOf": [
            {"const": "a", "title": "Anchovies"}, {"const": "b"}, {"const": "c"}]}},
        "api-key": {"type": "string"}
    }})
}

fn form() -> Form {
    Form::read(&schema()).expect("a form")
}

#[test]
fn every_kind_of_field_is_known() {
    let form = form();
    let field = |name: &str| form.0.iter().find(|field| field.name == name).expect("it is there");
    assert_eq!((field("name").title.as_str(), field("name").required), ("Your name", true));
    let Kind::One(colours) = &field("colour").kind else { panic!("choices") };
    assert_eq!((colours[1].value.as_str(), colours[1].title.as_str()), ("g", "green"));
    let Kind::One(shapes) = &field("shape").kind else { panic!("choices") };
    assert_eq!((shapes[0].title.as_str(), shapes[1].title.as_str()), ("circle", "s"));
    assert!(field("api-key").is_secret() && !field("name").is_secret());
    assert!(Form::read(&json!([])).is_err());
    assert!(Form::read(&json!({"properties": {"x": {"type": "object"}}})).is_err());
    assert_eq!(Form::read(&json!({"type": "object"})), Ok(Form(Vec::new())));
}

#[test]
fn what_does_not_fit_is_told_with_its_field() {
    let whole = json!({"name": "Ada", "size": 3});
    assert_eq!(form().check(&whole), Ok(()));
    for (name, wrong, why) in [
        ("name", json!("A"), "less than 2"),
        ("name", json!("Adelheid"), "more than 5"),
        ("name", json!(5), "must be a text"),
        ("mail", json!("a@"), "e-mail"),
        ("mail", json!("a b@c"), "e-mail"),
        ("site", json!("nowhere"), "a URI"),
        ("day", json!("2026-02-29"), "a date"),
        ("day", json!("2026-1-1"), "a date"),
        ("at", json!("2026-02-28T12:00"), "a moment"),
        ("at", json!("2026-02-28T25:00:00Z"), "a moment"),
        ("size", json!(2.5), "a whole number"),
        ("size", json!(10), "more than 9"),
        ("size", json!("3"), "a whole number"),
        ("ratio", json!(0.75), "more than 0.5"),
        ("sure", json!("yes"), "true or false"),
        ("colour", json!("red"), "one of r, g"),
        ("shape", json!(null), "one of c, s"),
        ("extras", json!([]), "less than 1"),
        ("extras", json!(["a", "b", "c"]), "more than 2"),
        ("extras", json!(["d"]), "can only have a, b, c"),
        ("other", json!(1), "no field"),
    ] {
        let mut answer = whole.clone();
        answer[name] = wrong;
        let said = form().check(&answer).expect_err(name);
        assert!(said.contains(why) && said.contains(name), "{said}");
    }
    assert!(form().check(&json!({"name": "Ada"})).expect_err("missing").contains("\"size\" is missing"));
    let fits = json!({
        "name": "Ada", "size": 9, "mail": "a@b.example", "site": "mailto:a@b", "day": "2024-02-29",
        "at": "2026-07-28T12:00:00.5+02:00", "ratio": -1, "sure": false, "colour": "g", "shape": "s", "extras": ["a", "c"],
    });
    assert_eq!(form().check(&fits), Ok(()));
}

#[test]
fn what_is_typed_becomes_a_value_of_its_kind() {
    let form = form();
    let read =
        |name: &str, typed: &str| form.0.iter().find(|field| field.name == name).expect("it").read(typed);
    assert_eq!(read("size", " 7 "), Ok(json!(7)));
    assert_eq!(read("sure", "no"), Ok(json!(false)));
    assert_eq!(read("extras", "a, b"), Ok(json!(["a", "b"])));
    assert_eq!(read("name", "12"), Ok(json!("12")));
    assert!(read("size", "many").is_err() && read("colour", "red").is_err());
}

#[test]
fn a_file_answers_by_key_or_in_order() {
    let kind = InputKind::Form { message: String::new(), schema: schema() };
    let mut by_key = AnswerFile::parse(
        r#"{"a": {"name": "Ada"}, "b": "decline", "c": {"action": "cancel"}, "d": {"name": 1}, "e": 5}"#,
    )
    .expect("answers");
    // What is not said is as the form has it.
    let full = json!({"name": "Ada", "size": 3, "sure": true});
    assert_eq!(by_key.take("a", &kind), Ok(Some(InputAnswer::Accept(full.clone()))));
    assert_eq!(by_key.take("b", &kind), Ok(Some(InputAnswer::Decline)));
    assert!(matches!(by_key.take("c", &kind), Ok(Some(InputAnswer::Result(_)))));
    assert!(by_key.take("d", &kind).expect_err("no text").contains("\"name\""));
    assert!(by_key.take("e", &kind).is_err());
    assert_eq!(by_key.take("f", &kind), Ok(None));
    let mut in_order = AnswerFile::parse(r#"["cancel", {"name": "Ada"}]"#).expect("answers");
    assert_eq!(in_order.take("x", &kind), Ok(Some(InputAnswer::Cancel)));
    assert_eq!(in_order.take("y", &kind), Ok(Some(InputAnswer::Accept(full))));
    assert_eq!(in_order.take("z", &kind), Ok(None));
    let mut any =
        AnswerFile::parse(r#"{"*": {"model": "m", "role": "assistant", "content": []}}"#).expect("answers");
    assert!(matches!(any.take("q", &InputKind::Sampling), Ok(Some(InputAnswer::Result(_)))));
    assert!(AnswerFile::parse("5").is_err() && AnswerFile::parse("{").is_err());
}
