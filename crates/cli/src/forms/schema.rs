//! What a form asks for: the few kinds of fields that elicitation knows.

use serde_json::Value;

/// A form, as its schema describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Form(pub Vec<Field>);

/// One field of a form.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name in the answer.
    pub name: String,
    /// What people call it.
    pub title: String,
    /// What there is to say about it.
    pub description: Option<String>,
    /// Whether there must be a value.
    pub required: bool,
    /// What is taken where nothing is said.
    pub default: Option<Value>,
    /// What its value is.
    pub kind: Kind,
}

/// What a field's value is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A text.
    Text {
        /// How many characters there must be.
        least: Option<u64>,
        /// How many there may be.
        most: Option<u64>,
        /// Of which form it must be, such as `email`.
        format: Option<String>,
    },
    /// A number.
    Number {
        /// Whether it must be whole.
        whole: bool,
        /// The smallest.
        least: Option<f64>,
        /// The largest.
        most: Option<f64>,
    },
    /// Yes or no.
    Flag,
    /// One of several values.
    One(Vec<Choice>),
    /// Some of several values.
    Many {
        /// Of which.
        choices: Vec<Choice>,
        /// How many there must be.
        least: Option<u64>,
        /// How many there may be.
        most: Option<u64>,
    },
}

/// One of several values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The value.
    pub value: String,
    /// What people call it.
    pub title: String,
}

/// Words in a field's name that mean that nobody should see its value.
const SECRETS: [&str; 8] =
    ["password", "passwd", "passphrase", "secret", "token", "api_key", "apikey", "credential"];

impl Form {
    /// Reads a schema. What it does not know of a field is left to the server to check.
    ///
    /// # Errors
    ///
    /// What no form can be made of, as a sentence.
    pub fn read(schema: &Value) -> Result<Form, String> {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return match schema.as_object() {
                Some(_) => Ok(Form(Vec::new())),
                None => Err("The form's schema is no object.".to_owned()),
            };
        };
        let required: Vec<&str> = match schema.get("required").and_then(Value::as_array) {
            Some(names) => names.iter().filter_map(Value::as_str).collect(),
            None => Vec::new(),
        };
        let fields = properties.iter().map(|(name, raw)| {
            let text = |key: &str| raw.get(key).and_then(Value::as_str).map(str::to_owned);
            Ok(Field {
                name: name.clone(),
                title: text("title").unwrap_or_else(|| name.clone()),
                description: text("description"),
                required: required.contains(&name.as_str()),
                default: raw.get("default").cloned(),
                kind: kind(raw)
                    .ok_or_else(|| format!("The form's field {name:?} is of no kind that is known."))?,
            })
        });
        fields.collect::<Result<_, _>>().map(Form)
    }
}

impl Field {
    /// Whether its value must not be seen while it is typed.
    pub fn is_secret(&self) -> bool {
        let is_password =
            matches!(&self.kind, Kind::Text { format: Some(format), .. } if format == "password");
        let name = self.name.to_ascii_lowercase().replace('-', "_");
        is_password || SECRETS.iter().any(|word| name.contains(word))
    }
}

fn kind(raw: &Value) -> Option<Kind> {
    let count = |key: &str| raw.get(key).and_then(Value::as_u64);
    let number = |key: &str| raw.get(key).and_then(Value::as_f64);
    if let Some(choices) = choices(raw) {
        return Some(Kind::One(choices));
    }
    Some(match raw.get("type")?.as_str()? {
        "string" => Kind::Text {
            least: count("minLength"),
            most: count("maxLength"),
            format: raw.get("format").and_then(Value::as_str).map(str::to_owned),
        },
        "number" => Kind::Number { whole: false, least: number("minimum"), most: number("maximum") },
        "integer" => Kind::Number { whole: true, least: number("minimum"), most: number("maximum") },
        "boolean" => Kind::Flag,
        "array" => Kind::Many {
            choices: choices(raw.get("items")?)?,
            least: count("minItems"),
            most: count("maxItems"),
        },
        _ => return None,
    })
}

/// The values of an enumeration, in each of the ways in which schemas give them titles.
fn choices(raw: &Value) -> Option<Vec<Choice>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(values) = raw.get("enum").and_then(Value::as_array) {
        let titles = raw.get("enumNames").and_then(Value::as_array);
        let choice = |(place, value): (usize, &Value)| {
            let value = text(value)?;
            let title = titles.and_then(|titles| text(titles.get(place)?)).unwrap_or_else(|| value.clone());
            Some(Choice { value, title })
        };
        return values.iter().enumerate().map(choice).collect();
    }
    let options = ["oneOf", "anyOf"].iter().find_map(|key| raw.get(*key)?.as_array())?;
    let choice = |option: &Value| {
        let value = text(option.get("const")?)?;
        let title = option.get("title").and_then(text).unwrap_or_else(|| value.clone());
        Some(Choice { value, title })
    };
    options.iter().map(choice).collect()
}
