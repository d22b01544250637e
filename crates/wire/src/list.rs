//! The lists a server has, all of the same form.

use crate::method;

/// A list of a server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListKind {
    /// `tools/list`
    Tools,
    /// `prompts/list`
    Prompts,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    Templates,
}

impl ListKind {
    /// Every list.
    pub const ALL: [ListKind; 4] =
        [ListKind::Tools, ListKind::Prompts, ListKind::Resources, ListKind::Templates];

    /// The list a method asks for.
    pub fn of(method: &str) -> Option<ListKind> {
        ListKind::ALL.into_iter().find(|kind| kind.method() == method)
    }

    /// The lists a notification tells to be different now.
    pub fn changed_by(method: &str) -> &'static [ListKind] {
        match method {
            method::TOOLS_CHANGED => &[ListKind::Tools],
            method::PROMPTS_CHANGED => &[ListKind::Prompts],
            // There is one notification for both.
            method::RESOURCES_CHANGED => &[ListKind::Resources, ListKind::Templates],
            _ => &[],
        }
    }

    /// The method that asks for it.
    pub const fn method(self) -> &'static str {
        match self {
            ListKind::Tools => method::TOOLS_LIST,
            ListKind::Prompts => method::PROMPTS_LIST,
            ListKind::Resources => method::RESOURCES_LIST,
            ListKind::Templates => method::TEMPLATES_LIST,
        }
    }

    /// The member of the result that holds the list.
    pub const fn member(self) -> &'static str {
        match self {
            ListKind::Tools => "tools",
            ListKind::Prompts => "prompts",
            ListKind::Resources => "resources",
            ListKind::Templates => "resourceTemplates",
        }
    }

    /// The member of a definition that callers name it by.
    pub const fn key(self) -> &'static str {
        match self {
            ListKind::Tools | ListKind::Prompts => "name",
            ListKind::Resources => "uri",
            ListKind::Templates => "uriTemplate",
        }
    }

    /// The capability a server declares that has it.
    pub const fn feature(self) -> &'static str {
        match self {
            ListKind::Tools => "tools",
            ListKind::Prompts => "prompts",
            ListKind::Resources | ListKind::Templates => "resources",
        }
    }

    /// Whether its entries have names, which can be given a prefix. A URI is left as it is: it says where something is.
    pub const fn has_names(self) -> bool {
        matches!(self, ListKind::Tools | ListKind::Prompts)
    }
}
