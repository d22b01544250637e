//! When the configuration is read again: on SIGHUP, and when its file has changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use taskgate_gateway::{BuildError, Config, Reloaded};
use tokio::signal::unix::Signal;
use tokio::time::MissedTickBehavior;

use crate::exit_code::Failure;

/// How often the file is looked at. Its text is compared and not its time, which says nothing where a directory of links is
/// swapped, as Kubernetes does it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A file that is watched, and what it meant when it was last read without a fault.
pub struct Reload {
    file: PathBuf,
    seen: Option<Vec<u8>>,
    /// What was there at the last look, if it differed: whoever writes the file may not be done.
    fresh: Option<Vec<u8>>,
    meant: Config,
}

impl Reload {
    /// Of this file, which means `config` at the moment.
    pub fn of(file: &Path, config: Config) -> Self {
        Reload { file: file.to_owned(), seen: std::fs::read(file).ok(), fresh: None, meant: config }
    }

    /// Reads the configuration whenever there is reason to, and has it applied. Never returns.
    ///
    /// What cannot be read, is not valid or cannot be applied changes nothing and is told to the log.
    pub async fn watch(
        mut self,
        mut hangup: Signal,
        read: impl Fn() -> Result<Config, Failure>,
        apply: impl Fn(&Config) -> Result<Reloaded, BuildError>,
    ) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                heard = hangup.recv() => match heard {
                    Some(()) => self.seen = std::fs::read(&self.file).ok(),
                    None => std::future::pending().await,
                },
                _ = looks.tick() => if !self.has_changed(std::fs::read(&self.file).ok()) { continue },
            }
            self.once(&read, &apply);
        }
    }

    /// Whether the file has another text than when it was last read, and has had it for two looks.
    fn has_changed(&mut self, now: Option<Vec<u8>>) -> bool {
        // One that is not there is about to be put there again, or it has no say any more.
        if now.is_none() || now == self.seen {
            self.fresh = None;
            return false;
        }
        if now != self.fresh {
            self.fresh = now;
            return false;
        }
        self.seen = self.fresh.take();
        true
    }

    fn once(
        &mut self,
        read: impl Fn() -> Result<Config, Failure>,
        apply: impl Fn(&Config) -> Result<Reloaded, BuildError>,
    ) {
        let file = self.file.display();
        let config = match read() {
            Ok(config) => config,
            Err(failure) => {
                tracing::error!(%file, "not reloaded: {}", failure.message);
                return;
            }
        };
        match apply(&config) {
            Ok(changes) => {
                let Reloaded { added, changed, removed, rules } = &changes;
                tracing::info!(%file, ?added, ?changed, ?removed, rules, "reloaded");
            }
            Err(error) => {
                tracing::error!(%file, "not reloaded: {error}");
                return;
            }
        }
        if (config.listen, &config.store, &config.encryption, &config.settings)
            != (self.meant.listen, &self.meant.store, &self.meant.encryption, &self.meant.settings)
        {
            tracing::warn!(%file, "what has changed in the top part of the file counts from the next start on");
        }
        self.meant = config;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(more: &str) -> Config {
        let text = format!("{more}\n[[upstream]]\nname = \"x\"\ndemo = true\n");
        Config::parse(&text, "taskgate.toml").expect("valid")
    }

    #[test]
    fn a_file_that_is_being_written_is_not_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("taskgate.toml");
        std::fs::write(&file, "one").expect("written");
        let mut reload = Reload::of(&file, config(""));
        let mut look = |text: Option<&str>| reload.has_changed(text.map(|text| text.into()));
        assert!(!look(Some("one")));
        assert!(!look(Some("two and")) && !look(Some("two and a half")));
        assert!(look(Some("two and a half")) && !look(Some("two and a half")));
        // Away and back with the old text, as editors do it that write a new file: nothing has changed.
        assert!(!look(Some("thr")) && !look(None) && !look(Some("two and a half")));
        assert!(!look(Some("two and a half")));
    }

    #[test]
    fn what_is_not_valid_or_not_possible_is_not_applied() {
        let mut reload = Reload::of(Path::new("/nowhere"), config(""));
        let failure = || Failure::new(crate::exit_code::ExitCode::Invalid, "not valid");
        reload.once(|| Err(failure()), |_| panic!("it was applied"));
        let other = || Ok(config("server_name = \"other\""));
        reload.once(other, |_| Err(BuildError::NoUpstream));
        assert_ne!(reload.meant.settings.server_name, "other");
        reload.once(other, |_| Ok(Reloaded::default()));
        assert_eq!(reload.meant.settings.server_name, "other");
    }
}
