//! What a template makes of values, whatever they are.

use serde_json::json;
use taskgate_job::{Escape, Expression, Failure, Template};

use crate::{call, declaration, scope, template};

fn rendered(source: &str, escape: Escape, args: serde_json::Value) -> Result<String, String> {
    let values = minijinja::value::Serde(&json!({"args": args, "key": "k", "with": {"place": "here"}}));
    template(source, escape).render(&values.into()).map_err(|fault| fault.to_string())
}

/// No argument ends the place it was put into.
#[test]
fn values_stay_values() {
    let nasty = "a\"},\"x\":{\"y\":\"é\\\n\u{0}/../?a=b&c=d#e%20";
    let body = rendered(
        r#"{"a": {{ args.a }}, "b": [{{ args.n }}, {{ args.o }}], "c": {{ "p-" ~ args.a }}}"#,
        Escape::Json,
        json!({"a": nasty, "n": 1.5, "o": {"x": [null, true]}}),
    )
    .expect("a body");
    let expected = json!({"a": nasty, "b": [1.5, {"x": [null, true]}], "c": format!("p-{nasty}")});
    assert_eq!(serde_json::from_str::<serde_json::Value>(&body).expect("JSON"), expected);
    let url =
        rendered("http://h/{{ args.a }}/x?q={{ args.a }}", Escape::Url, json!({"a": "a/b?c#d&e=é %2e"}))
            .expect("a URL");
    let encoded = "a%2Fb%3Fc%23d%26e%3D%C3%A9%20%252e";
    assert_eq!(url, format!("http://h/{encoded}/x?q={encoded}"));
    let form = rendered("a={{ args.a }}&b=c", Escape::Form, json!({"a": "x&b=d"})).expect("a form");
    assert_eq!(form, "a=x%26b%3Dd&b=c");
}

/// No argument makes a URL mean the place above, or the whole of what it should mean a part of.
#[test]
fn values_do_not_change_which_place_a_url_means() {
    for (source, a) in [
        ("http://h/jobs/{{ args.a }}/stop", ".."),
        ("http://h/jobs/{{ args.a }}", "."),
        ("http://h/jobs/.{{ args.a }}/stop", "."),
        ("http://h/jobs/%2E{{ args.a }}", "."),
        ("http://h/jobs/{{ args.a }}", ""),
        ("http://h/jobs/x{{ args.a }}", ""),
    ] {
        let refused = rendered(source, Escape::Url, json!({ "a": a })).expect_err("refused");
        assert!(refused.contains("URL"), "{refused}");
    }
    let url =
        rendered("http://h/jobs?a={{ args.a }}&b={{ args.b }}", Escape::Url, json!({"a": "", "b": ".."}));
    assert_eq!(url.as_deref(), Ok("http://h/jobs?a=&b=.."));
    let refused =
        rendered("http://h/{{ args.a }}", Escape::Url, json!({"a": {"x": 1}})).expect_err("refused");
    assert!(refused.contains("map cannot be inserted"), "{refused}");
    let whole = rendered("http://h/{{ args.a|safe }}/x", Escape::Url, json!({"a": "b/c"}));
    assert_eq!(whole.as_deref(), Ok("http://h/b/c/x"));
}

/// What is missing is named, and nothing is sent without it.
#[test]
fn what_is_missing_is_named() {
    for source in ["{{ args.b }}", "{{ args.b.c }}", r#"{"a": [{{ args.a }}, {{ args.b }}]}"#] {
        let why = rendered(source, Escape::Json, json!({"a": 1})).expect_err("it is missing");
        assert!(why.contains("args.b") && why.contains("no such value"), "{why}");
    }
    let optional = rendered(r#"{"a": {{ args.b|default("x") }}}"#, Escape::Json, json!({}));
    assert_eq!(optional.as_deref(), Ok(r#"{"a": "x"}"#));
}

/// A header with a line end would be two headers.
#[test]
fn a_header_is_one_header() {
    let http = taskgate_job::Http::new(None).expect("connections");
    let mut declared = declaration("http://127.0.0.1:1");
    declared.start.request.headers =
        vec![("x-name".parse().expect("a name"), template("{{ args.name }}", Escape::Header))];
    let api = taskgate_job::JobApi::new(declared, http);
    assert_eq!(api.check(&call(json!({"name": "plain"}))), Ok(()));
    for name in ["a\r\nX-Evil: 1", "a\nb", "\u{0}", "\u{7f}", "é"] {
        let refused = api.check(&call(json!({ "name": name }))).expect_err("refused");
        assert!(
            matches!(refused, Failure::Unmade { .. }) && refused.to_string().contains("x-name"),
            "{refused}"
        );
    }
}

/// A configuration is told of its mistakes before anything runs.
#[test]
fn mistakes_are_found_without_values() {
    for (source, why) in [
        ("{{ args.", "unexpected end"),
        ("{{ arguments.a }}", "`arguments` is not known here; known: args"),
        ("{{ with.plaec }}", "`with` has no `plaec`; it has: place"),
        ("{{ job.name }}", "`job` has no `name`; it has: id"),
        (r#"{"a": "{{ args.a }}"}"#, "no quotes go around it"),
        (r#"{"a": {{ args.a }}"#, "this is no JSON"),
        ("{{ args.a|nonsense }}", "nonsense"),
    ] {
        let fault = Template::new(source, Escape::Json, &scope()).expect_err(source).to_string();
        assert!(fault.contains(why), "{source}: {fault}");
    }
    for (source, why) in
        [("body.", "unexpected end"), ("bdoy.id", "`bdoy` is not known"), ("body.x|nonsense", "nonsense")]
    {
        let fault = Expression::new(source, &scope()).expect_err(source).to_string();
        assert!(fault.contains(why), "{source}: {fault}");
    }
    let loops = r#"[{% for a in args.list %}{{ a }}{% if not loop.last %},{% endif %}{% endfor %}]"#;
    assert!(Template::new(loops, Escape::Json, &scope()).is_ok());
    assert_eq!(rendered(loops, Escape::Json, json!({"list": [1, "x"]})).as_deref(), Ok(r#"[1,"x"]"#));
}

#[test]
fn expressions_find_values() {
    let values: minijinja::Value = minijinja::value::Serde(&json!({
        "body": {"runs": [{"status": "RUNNING", "n": 9_007_199_254_740_993_i64}], "text": "{\"a\":1}", "none": null, "raw": "aGk="},
    })).into();
    let found = |source: &str| crate::expression(source).required(&values).map_err(|fault| fault.to_string());
    assert_eq!(found("body.runs[0].status"), Ok(json!("RUNNING")));
    assert_eq!(found("body.runs[0].n"), Ok(json!(9_007_199_254_740_993_i64)));
    assert_eq!(found("(body.text|fromjson).a"), Ok(json!(1)));
    assert_eq!(found("body.raw|b64decode"), Ok(json!("hi")));
    assert_eq!(found("body.none"), Ok(json!(null)));
    assert_eq!(found("'x' if body.missing else 'y'").ok(), None);
    assert_eq!(found("'x' if body.missing is defined else 'y'"), Ok(json!("y")));
    for missing in ["body.runs[1]", "body.missing", "body.missing.deeper"] {
        let why = found(missing).expect_err("it is missing");
        assert!(why.contains(missing) && why.contains("no such value"), "{why}");
        assert_eq!(crate::expression(missing).optional(&values), None);
    }
    assert_eq!(crate::expression("body.none").optional(&values), None);
    assert_eq!(crate::expression("body.runs[0].status").optional(&values), Some(json!("RUNNING")));
}
