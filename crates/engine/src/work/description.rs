use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use taskgate_task::{InvalidPayload, Payload};

/// What a runner is to do, in its own words: a text that is kept with the task and, where the text was written, the value
/// it was written from. Most calls end where they began, and what they are need not be read from text for that.
#[derive(Clone)]
pub struct Description {
    text: Payload,
    value: Option<Arc<dyn Any + Send + Sync>>,
}

impl Description {
    /// Describes work by a value, which must be equal to what is read from its text again.
    ///
    /// # Errors
    ///
    /// [`InvalidPayload`] if the value cannot be written as JSON.
    pub fn of<T: Serialize + Send + Sync + 'static>(value: T) -> Result<Self, InvalidPayload> {
        Ok(Description { text: Payload::from_value(&value)?, value: Some(Arc::new(value)) })
    }

    /// The value, read from its text if it does not come from here.
    ///
    /// # Errors
    ///
    /// [`InvalidPayload`] if the text is none of this type.
    pub fn read<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Result<Arc<T>, InvalidPayload> {
        match self.value.clone().and_then(|value| value.downcast().ok()) {
            Some(value) => Ok(value),
            None => Ok(Arc::new(serde_json::from_str(self.text.as_str())?)),
        }
    }

    /// The text.
    pub fn text(&self) -> &Payload {
        &self.text
    }
}

/// As it is found with a task.
impl From<Payload> for Description {
    fn from(text: Payload) -> Self {
        Description { text, value: None }
    }
}

impl fmt::Debug for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_described_here_is_not_read_again() {
        let words = vec!["a".to_owned(), "b".to_owned()];
        let here = Description::of(words.clone()).expect("JSON");
        let kept = Description::from(here.text().clone());
        let (first, second) = (here.read::<Vec<String>>().expect("it"), here.read().expect("it"));
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!((&*first, &*kept.read::<Vec<String>>().expect("read")), (&words, &words));
        assert!(here.read::<Vec<u8>>().is_err() && kept.read::<u8>().is_err());
    }
}
