//! Nothing may panic in the product, and nothing that is merely a race may be logged as an error.

use std::fmt::Write;
use std::sync::{Once, OnceLock};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static PANICS: OnceLock<Mutex<Vec<String>>> = OnceLock::new();
static ERRORS: OnceLock<Mutex<Vec<String>>> = OnceLock::new();
static ONCE: Once = Once::new();

/// Starts watching. Every server of a test calls it, so that it holds for all of them.
pub fn watch() {
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let place = info.location().map(|place| place.file().to_owned()).unwrap_or_default();
            // A failed assertion of a test is not a panic of the product.
            if !place.contains("tests/gateway/") {
                PANICS.get_or_init(Mutex::default).lock().push(info.to_string());
            }
            before(info);
        }));
        let _ = tracing::subscriber::set_global_default(Errors);
    });
}

/// The panics in the product so far.
pub fn panics() -> Vec<String> {
    PANICS.get_or_init(Mutex::default).lock().clone()
}

/// What was logged as an error so far, in all tests of this process.
pub fn errors() -> Vec<String> {
    ERRORS.get_or_init(Mutex::default).lock().clone()
}

/// Fails if anything went wrong that no client can see.
#[track_caller]
pub fn clean() {
    assert_eq!(panics(), Vec::<String>::new());
    assert_eq!(errors(), Vec::<String>::new());
}

struct Errors;

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // A test fills the disk of an audit log, of which that log must say something.
        *metadata.level() == Level::ERROR && !metadata.target().ends_with("::audit::writer")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                let _ = write!(self.0, " {field}={value:?}");
            }
        }
        let mut text = Text(event.metadata().target().to_owned());
        event.record(&mut text);
        ERRORS.get_or_init(Mutex::default).lock().push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
