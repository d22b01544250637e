//! Whether a value is what a field asks for.

use serde_json::{Map, Value};

use super::schema::{Field, Form, Kind};

impl Form {
    /// Whether the answer is what the form asks for.
    ///
    /// # Errors
    ///
    /// What is wrong with it, as a sentence without the values.
    pub fn check(&self, answer: &Value) -> Result<(), String> {
        let Some(answer) = answer.as_object() else { return Err("The answer is no object.".to_owned()) };
        for field in &self.0 {
            match answer.get(&field.name) {
                Some(value) => {
                    field.check(value).map_err(|wrong| format!("The field {:?} {wrong}.", field.name))?;
                }
                None if field.required => return Err(format!("The field {:?} is missing.", field.name)),
                None => {}
            }
        }
        let unknown = |name: &&String| !self.0.iter().any(|field| field.name == **name);
        match answer.keys().find(unknown) {
            Some(name) => Err(format!("The form has no field {name:?}.")),
            None => Ok(()),
        }
    }

    /// The answer that takes what is said where nothing else is.
    pub fn with_defaults(&self, mut answer: Map<String, Value>) -> Map<String, Value> {
        for field in &self.0 {
            if let (None, Some(default)) = (answer.get(&field.name), &field.default) {
                answer.insert(field.name.clone(), default.clone());
            }
        }
        answer
    }
}

impl Field {
    /// Whether the value is what the field asks for.
    ///
    /// # Errors
    ///
    /// What is wrong, as the end of a sentence that begins with the field.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        match (&self.kind, value) {
            (Kind::Text { least, most, format }, Value::String(text)) => {
                let length = text.chars().count() as u64;
                within(length as f64, as_float(*least), as_float(*most), "has", "characters")?;
                format.as_deref().map_or(Ok(()), |format| check_format(format, text))
            }
            (Kind::Text { .. }, _) => Err("must be a text".to_owned()),
            (Kind::Number { whole, least, most }, Value::Number(number)) => {
                let number = number.as_f64().ok_or("is no number that can be checked")?;
                if *whole && number.fract() != 0.0 {
                    return Err("must be a whole number".to_owned());
                }
                within(number, *least, *most, "is", "")
            }
            (Kind::Number { whole: true, .. }, _) => Err("must be a whole number".to_owned()),
            (Kind::Number { .. }, _) => Err("must be a number".to_owned()),
            (Kind::Flag, Value::Bool(_)) => Ok(()),
            (Kind::Flag, _) => Err("must be true or false".to_owned()),
            (Kind::One(choices), Value::String(text))
                if choices.iter().any(|choice| choice.value == *text) =>
            {
                Ok(())
            }
            (Kind::One(choices), _) => {
                let all: Vec<&str> = choices.iter().map(|choice| choice.value.as_str()).collect();
                Err(format!("must be one of {}", all.join(", ")))
            }
            (Kind::Many { choices, least, most }, Value::Array(values)) => {
                let is_known = |value: &Value| {
                    value.as_str().is_some_and(|text| choices.iter().any(|choice| choice.value == text))
                };
                if !values.iter().all(is_known) {
                    let all: Vec<&str> = choices.iter().map(|choice| choice.value.as_str()).collect();
                    return Err(format!("can only have {}", all.join(", ")));
                }
                within(values.len() as f64, as_float(*least), as_float(*most), "has", "values")
            }
            (Kind::Many { .. }, _) => Err("must be a list".to_owned()),
        }
    }

    /// Reads what was typed as a value of this field.
    ///
    /// # Errors
    ///
    /// As [`Field::check`].
    pub fn read(&self, typed: &str) -> Result<Value, String> {
        let value = match &self.kind {
            Kind::Number { .. } => serde_json::from_str(typed.trim()).unwrap_or(Value::Null),
            Kind::Flag => match typed.trim() {
                "true" | "yes" | "y" => Value::Bool(true),
                "false" | "no" | "n" => Value::Bool(false),
                _ => Value::Null,
            },
            Kind::Many { .. } => {
                let parts = typed.split(',').map(str::trim).filter(|part| !part.is_empty());
                parts.map(|part| Value::String(part.to_owned())).collect()
            }
            Kind::Text { .. } | Kind::One(_) => Value::String(typed.to_owned()),
        };
        self.check(&value).map(|()| value)
    }
}

fn as_float(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

fn within(number: f64, least: Option<f64>, most: Option<f64>, verb: &str, what: &str) -> Result<(), String> {
    let end = |bound: f64, word: &str| format!("{verb} {number} {what}, {word} {bound}").replace(" ,", ",");
    match (least, most) {
        (Some(least), _) if number < least => Err(end(least, "less than")),
        (_, Some(most)) if number > most => Err(end(most, "more than")),
        _ => Ok(()),
    }
}

fn check_format(format: &str, text: &str) -> Result<(), String> {
    let (is_so, what) = match format {
        "email" => {
            let parts = text.split_once('@');
            let is_part =
                |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || c == '@');
            (parts.is_some_and(|(name, host)| is_part(name) && is_part(host)), "an e-mail address")
        }
        "uri" => {
            let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
            let parts = text.split_once(':');
            let is_so = parts.is_some_and(|(scheme, rest)| {
                scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                    && scheme.chars().all(is_scheme)
                    && !rest.is_empty()
            });
            (is_so && !text.contains(char::is_whitespace), "a URI")
        }
        "date" => (is_date(text), "a date such as 2026-07-28"),
        "date-time" => (is_moment(text), "a moment such as 2026-07-28T12:00:00Z"),
        // Others are the server's to check.
        _ => (true, ""),
    };
    if is_so { Ok(()) } else { Err(format!("must be {what}")) }
}

/// Whether the text is a date of RFC 3339.
fn is_date(text: &str) -> bool {
    let numbers: Option<Vec<u32>> =
        text.split('-').map(|part| number(part, if part.len() == 4 { 4 } else { 2 })).collect();
    match numbers.as_deref() {
        Some([year, month, day]) if text.len() == 10 && (1..=12).contains(month) => {
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let days = match month {
                2 if is_leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (1..=days).contains(day)
        }
        _ => false,
    }
}

/// Whether the text is a moment of RFC 3339.
fn is_moment(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else { return false };
    let (time, has_zone) = if let Some(time) = time.strip_suffix(['Z', 'z']) {
        (time, true)
    } else if let Some(at) = time.rfind(['+', '-']) {
        (&time[..at], is_clock(&time[at + 1..], 2))
    } else {
        (time, false)
    };
    let (clock, is_fraction) = match time.split_once('.') {
        Some((clock, rest)) => (clock, !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit())),
        None => (time, true),
    };
    is_date(date) && is_clock(clock, 3) && is_fraction && has_zone
}

/// Whether the text is so many numbers of two digits that a clock can show.
fn is_clock(text: &str, parts: usize) -> bool {
    let numbers: Option<Vec<u32>> = text.split(':').map(|part| number(part, 2)).collect();
    let limits = [23, 59, 60];
    numbers.is_some_and(|numbers| {
        numbers.len() == parts && numbers.iter().zip(limits).all(|(number, limit)| *number <= limit)
    })
}

fn number(text: &str, digits: usize) -> Option<u32> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}
