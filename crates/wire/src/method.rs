//! Method names, each spelled once.

/// Whether a request of this method may be answered with questions (2026-07-28, multi round-trip requests). No other may.
pub fn may_ask(method: &str) -> bool {
    matches!(method, TOOLS_CALL | PROMPTS_GET | RESOURCES_READ)
}

/// `initialize`
pub const INITIALIZE: &str = "initialize";
/// `notifications/initialized`
pub const INITIALIZED: &str = "notifications/initialized";
/// `server/discover`
pub const DISCOVER: &str = "server/discover";
/// `ping`
pub const PING: &str = "ping";
/// `tools/list`
pub const TOOLS_LIST: &str = "tools/list";
/// `tools/call`
pub const TOOLS_CALL: &str = "tools/call";
/// `tasks/get`
pub const TASKS_GET: &str = "tasks/get";
/// `tasks/result`
pub const TASKS_RESULT: &str = "tasks/result";
/// `tasks/list`
pub const TASKS_LIST: &str = "tasks/list";
/// `tasks/cancel`
pub const TASKS_CANCEL: &str = "tasks/cancel";
/// `tasks/delete` of 2025-10-20
pub const TASKS_DELETE: &str = "tasks/delete";
/// `tasks/update`
pub const TASKS_UPDATE: &str = "tasks/update";
/// `subscriptions/listen`
pub const LISTEN: &str = "subscriptions/listen";
/// `notifications/subscriptions/acknowledged`
pub const LISTEN_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// `notifications/cancelled`
pub const CANCELLED: &str = "notifications/cancelled";
/// `notifications/progress`
pub const PROGRESS: &str = "notifications/progress";
/// `notifications/message`
pub const LOG_MESSAGE: &str = "notifications/message";
/// `notifications/tasks/created` of 2025-10-20
pub const TASK_CREATED: &str = "notifications/tasks/created";
/// `notifications/tasks/status` of 2025-11-25
pub const TASK_STATUS: &str = "notifications/tasks/status";
/// `notifications/tasks` of the extension
pub const TASK_NOTIFICATION: &str = "notifications/tasks";
/// `elicitation/create`
pub const ELICIT: &str = "elicitation/create";
/// `sampling/createMessage`
pub const SAMPLE: &str = "sampling/createMessage";
/// `roots/list`
pub const ROOTS_LIST: &str = "roots/list";
/// Whether a request of a server asks for input, in a way that every version knows. Others concern only a server and a
/// client that know them.
pub fn is_question(method: &str) -> bool {
    matches!(method, ELICIT | SAMPLE | ROOTS_LIST)
}

/// Whether only clients ask this, in any version: a server that does is mistaken.
pub fn is_of_clients(method: &str) -> bool {
    let listed = [
        INITIALIZE,
        DISCOVER,
        TOOLS_LIST,
        TOOLS_CALL,
        PROMPTS_LIST,
        PROMPTS_GET,
        RESOURCES_LIST,
        TEMPLATES_LIST,
        RESOURCES_READ,
        SUBSCRIBE,
        UNSUBSCRIBE,
        LISTEN,
        SET_LEVEL,
        COMPLETE,
    ];
    listed.contains(&method)
}

/// `logging/setLevel`
pub const SET_LEVEL: &str = "logging/setLevel";
/// `resources/subscribe`
pub const SUBSCRIBE: &str = "resources/subscribe";
/// `resources/unsubscribe`
pub const UNSUBSCRIBE: &str = "resources/unsubscribe";
/// `resources/read`
pub const RESOURCES_READ: &str = "resources/read";
/// `resources/list`
pub const RESOURCES_LIST: &str = "resources/list";
/// `resources/templates/list`
pub const TEMPLATES_LIST: &str = "resources/templates/list";
/// `prompts/list`
pub const PROMPTS_LIST: &str = "prompts/list";
/// `completion/complete`
pub const COMPLETE: &str = "completion/complete";
/// `notifications/roots/list_changed`
pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
/// `prompts/get`
pub const PROMPTS_GET: &str = "prompts/get";
/// `notifications/tools/list_changed`
pub const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
/// `notifications/prompts/list_changed`
pub const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
/// `notifications/resources/list_changed`
pub const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
/// `notifications/resources/updated`
pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
