//! What a server asks is answered by a file.

use serde_json::json;

use crate::served::Served;

#[test]
fn a_file_answers_by_key_and_in_order() {
    let demo = Served::demo();
    for (answers, code, said) in [
        ("{\"time\": {\"time\": \"19:30\"}}", 0, "booked at 19:30"),
        ("[{\"time\": \"21:00\"}]", 0, "booked at 21:00"),
        ("{\"*\": \"decline\"}", 0, "No table was booked"),
        ("{\"*\": {\"action\": \"cancel\"}}", 0, "No table was booked"),
        // It is held against the form before it is sent.
        ("{\"*\": {\"time\": \"20:00\"}}", 13, "one of 18:00, 19:30, 21:00"),
        ("{\"other\": {\"time\": \"19:30\"}}", 13, "nobody is here"),
        ("5", 2, "neither an object nor a list"),
    ] {
        let file = demo.file("answers.json", answers);
        let ran = demo.run(&["call", &demo.url, "book_table", "guests=4", "--answer", &file]);
        assert!(ran.code == code && (ran.out + &ran.err).contains(said), "{answers}: {}", ran.code);
    }
}

/// The question of a task waits until somebody answers it, however many processes later.
#[test]
fn a_task_that_asks_is_answered_later() {
    let served = Served::tasks();
    let waiting = served.run(&["call", &served.url, "book_table", "guests=4"]);
    assert!(waiting.code == 13 && waiting.err.contains("taskgate answer"), "{waiting:?}");
    let handle = waiting.out.trim();
    let state = served.run(&["get", handle, "--output", "json"]);
    let state = &state.lines()[0];
    assert_eq!(state["status"], "input_required", "{state}");
    assert_eq!(state["questions"][0]["key"], "time", "{state}");
    let nobody = served.run(&["answer", handle]);
    assert_eq!(nobody.code, 13, "{nobody:?}");
    let file = served.file("answers.json", &json!({"time": {"time": "18:00"}}).to_string());
    let other = served.run(&["answer", handle, "--key", "other", "--answer", &file]);
    assert!(other.code == 1 && other.err.contains("under that key"), "{other:?}");
    let answered = served.run(&["answer", handle, "--answer", &file, "--output", "json"]);
    assert!(answered.code == 0 && answered.lines() == [json!({"answered": 1})], "{answered:?}");
    let result = served.run(&["result", handle]);
    assert!(result.code == 0 && result.out.contains("booked at 18:00"), "{result:?}");
    let again = served.run(&["answer", handle, "--answer", &file]);
    assert!(again.code == 1 && again.err.contains("asks nothing"), "{again:?}");
}
