//! Protocol versions.

/// A published protocol version that is served here.
///
/// Versions compare in the order they were published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 2024-11-05: the first one. Its own HTTP transport, with two endpoints, is not served.
    V2024_11_05,
    /// 2025-03-26.
    V2025_03_26,
    /// 2025-06-18.
    V2025_06_18,
    /// 2025-11-25: sessions, tasks as a core feature.
    V2025_11_25,
    /// 2026-07-28: stateless, tasks as an extension.
    V2026_07_28,
}

impl Version {
    /// Every version, newest first.
    pub const ALL: [Version; 5] = [
        Version::V2026_07_28,
        Version::V2025_11_25,
        Version::V2025_06_18,
        Version::V2025_03_26,
        Version::V2024_11_05,
    ];

    /// The newest version that opens with `initialize`.
    pub const NEWEST_WITH_SESSION: Version = Version::V2025_11_25;

    /// The date, as it stands on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::V2024_11_05 => "2024-11-05",
            Version::V2025_03_26 => "2025-03-26",
            Version::V2025_06_18 => "2025-06-18",
            Version::V2025_11_25 => "2025-11-25",
            Version::V2026_07_28 => "2026-07-28",
        }
    }

    /// Reads a date.
    pub fn from_wire(text: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|version| version.as_str() == text)
    }

    /// Whether every request carries its own metadata and there is no handshake ("modern" in the versioning page).
    pub fn is_stateless(self) -> bool {
        self >= Version::V2026_07_28
    }

    /// Whether messages may come in batches: 2025-03-26 brought them, and the version after it took them away.
    pub fn has_batches(self) -> bool {
        self == Version::V2025_03_26
    }

    /// Whether clients know that a server may close a stream's connection and be asked for the rest (SEP-1699).
    pub fn has_polling(self) -> bool {
        self >= Version::V2025_11_25 && !self.is_stateless()
    }

    /// The version to answer an `initialize` with: the one asked for if it has that handshake, else the newest that has.
    pub fn negotiate(requested: &str) -> Version {
        match Version::from_wire(requested) {
            Some(version) if !version.is_stateless() => version,
            _ => Version::NEWEST_WITH_SESSION,
        }
    }
}
