//! Job APIs that are declared already. A preset is a declaration like any other; what a configuration says of its own goes
//! over it.

use toml::de::DeTable;

/// A job API that is declared already.
#[derive(Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    source: &'static str,
}

/// All of them.
pub const ALL: [Preset; 6] = [
    Preset { name: "aws-step-functions", source: include_str!("presets/aws-step-functions.toml") },
    Preset { name: "github-actions", source: include_str!("presets/github-actions.toml") },
    Preset { name: "google-workflows", source: include_str!("presets/google-workflows.toml") },
    Preset { name: "hugging-face-jobs", source: include_str!("presets/hugging-face-jobs.toml") },
    Preset { name: "kubernetes-job", source: include_str!("presets/kubernetes-job.toml") },
    Preset { name: "temporal", source: include_str!("presets/temporal.toml") },
];

/// The preset with this name.
pub fn find(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|preset| preset.name == name)
}

/// The key of a preset that says what `with` must have: each setting, and what it is.
const NEEDS: &str = "needs";

impl Preset {
    /// The declaration.
    pub fn table(&self) -> DeTable<'static> {
        let mut table = self.parsed();
        table.remove(NEEDS);
        table
    }

    /// What `with` must say, each with what it is.
    pub fn needs(&self) -> Vec<(String, String)> {
        let needs = self.parsed().remove(NEEDS);
        let needs = needs.as_ref().and_then(|needs| needs.get_ref().as_table());
        let needs = needs.iter().flat_map(|needs| needs.iter());
        needs
            .map(|(key, what)| {
                (key.get_ref().to_string(), what.get_ref().as_str().unwrap_or_default().to_owned())
            })
            .collect()
    }

    fn parsed(&self) -> DeTable<'static> {
        // That each can be read is a test's to see.
        DeTable::parse(self.source).map(toml::Spanned::into_inner).unwrap_or_default()
    }
}
