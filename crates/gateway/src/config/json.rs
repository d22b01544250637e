//! Values of the file that are handed on as JSON.

use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

use super::error::Problems;
use super::fields::FromValue;

impl<'a, 'i> FromValue<'a, 'i> for Map<String, Value> {
    const WHAT: &'static str = "a table";

    fn read(value: &'a DeValue<'i>, key: &'static str, problems: &Problems) -> Option<Self> {
        Some(object(value.as_table()?, key, problems))
    }
}

pub(super) fn object(table: &DeTable<'_>, key: &'static str, problems: &Problems) -> Map<String, Value> {
    let mut object = Map::new();
    for (name, value) in table.iter() {
        match json(value.get_ref(), key, problems) {
            Some(json) => {
                object.insert(name.get_ref().to_string(), json);
            }
            None => {
                let what = format!("`{key}`: `{}` has a value that JSON does not have", name.get_ref());
                let help = "allowed: strings, finite numbers, true, false, arrays and tables";
                problems.add_with_help(value.span(), what, help);
            }
        }
    }
    object
}

fn json(value: &DeValue<'_>, key: &'static str, problems: &Problems) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok()?.into(),
        DeValue::Float(number) => Value::Number(Number::from_f64(number.as_str().parse().ok()?)?),
        DeValue::Boolean(word) => Value::from(*word),
        DeValue::Datetime(_) => return None,
        DeValue::Array(items) => {
            Value::Array(items.iter().map(|item| json(item.get_ref(), key, problems)).collect::<Option<_>>()?)
        }
        DeValue::Table(table) => Value::Object(object(table, key, problems)),
    })
}
