//! What is known of `_meta`.

use serde::Deserialize;
use serde_json::value::RawValue;
use taskgate_task::{InvalidPayload, Payload};

use crate::raw::{RawObject, object_member, read_object};

/// The `_meta` key that ties a message to a task (2025-11-25).
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// The `_meta` key of the text a host may hand to its model at once (2025-11-25).
pub const IMMEDIATE_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";
/// The `_meta` key that names the subscription a notification belongs to (2026-07-28).
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The `_meta` key with the server's name and version (2026-07-28).
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The `_meta` key with the version of a request (2026-07-28).
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The `_meta` key with the client's capabilities (2026-07-28).
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The `_meta` key with the client's name (2026-07-28).
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The `_meta` key of the log level a request wants (2026-07-28).
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The `_meta` key of the token that progress is reported under.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// The `_meta` key under which a caller of taskgate names a call, so that sending it again makes no second task. It is
/// ours, not the protocol's.
pub const IDEMPOTENCY_KEY: &str = "io.taskgate/idempotency-key";
/// The `_meta` key that says, beside [`IDEMPOTENCY_KEY`], that the call is only to be found and not to be made. It is ours.
pub const IDEMPOTENCY_FIND: &str = "io.taskgate/idempotency-find";
/// `data.reason` of the error that says that no call with the key is known.
pub const KEY_NOT_FOUND: &str = "key_not_found";
/// The name of the tasks extension (SEP-2663).
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Changes the `_meta` of a params or result object and nothing else of it. Without an object there is an empty one; a
/// `_meta` that is no object is replaced; one that ends up empty is left out.
pub fn edit(
    object: Option<&Payload>,
    change: impl FnOnce(&mut RawObject<'_>) -> Result<(), InvalidPayload>,
) -> Result<Payload, InvalidPayload> {
    let mut object = object.map(|object| RawObject::parse(object.as_str())).transpose()?.unwrap_or_default();
    let old = object.get("_meta").map(ToOwned::to_owned);
    let mut meta = old.as_ref().and_then(|raw| RawObject::parse(raw.get()).ok()).unwrap_or_default();
    change(&mut meta)?;
    if meta.is_empty() {
        object.remove("_meta");
    } else {
        object.set("_meta", meta.to_raw()?);
    }
    object.to_payload()
}

/// The params of a request without its progress token, which the sender chose for one hop: on the next hop nobody knows
/// it, and progress sent under it would reach nobody.
pub fn without_progress_token(params: Payload) -> Payload {
    without(PROGRESS_TOKEN, params)
}

/// Whether a progress notification is about the request with this id, whose token is the same. Some servers return numbers
/// as strings.
pub fn is_progress_of(params: &Payload, request: &crate::jsonrpc::Id) -> bool {
    let token = RawObject::parse(params.as_str())
        .ok()
        .and_then(|params| params.get(PROGRESS_TOKEN).map(ToOwned::to_owned));
    token.is_some_and(|token| token.get().trim_matches('"') == request.as_str())
}

/// Params or a result without this member of their `_meta`.
pub fn without(key: &str, object: Payload) -> Payload {
    let has_it = RawObject::parse(object.as_str()).is_ok_and(|object| {
        let meta = object.get("_meta").and_then(|raw| RawObject::parse(raw.get()).ok());
        meta.is_some_and(|meta| meta.get(key).is_some())
    });
    if !has_it {
        return object;
    }
    let edited = edit(Some(&object), |meta| {
        meta.remove(key);
        Ok(())
    });
    edited.unwrap_or(object)
}

/// What is known of a request's `_meta`; everything else stays in the raw text.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(expecting = "an object as _meta")]
pub struct Meta<'a> {
    /// Where to send progress.
    #[serde(borrow, default, rename = "progressToken")]
    pub progress_token: Option<&'a RawValue>,
    /// The request's protocol version.
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    pub protocol_version: Option<&'a RawValue>,
    /// What the client can do, as far as this request goes.
    #[serde(borrow, default, rename = "io.modelcontextprotocol/clientCapabilities")]
    pub client_capabilities: Option<&'a RawValue>,
    /// Who the client is.
    #[serde(borrow, default, rename = "io.modelcontextprotocol/clientInfo")]
    pub client_info: Option<&'a RawValue>,
    /// From which level on log messages are wanted.
    #[serde(borrow, default, rename = "io.modelcontextprotocol/logLevel")]
    pub log_level: Option<&'a RawValue>,
    /// Asks for a task (2025-10-20).
    #[serde(borrow, default, rename = "modelcontextprotocol.io/task")]
    pub first_task: Option<&'a RawValue>,
    /// The task it is about (2025-10-20).
    #[serde(borrow, default, rename = "modelcontextprotocol.io/related-task")]
    pub first_related_task: Option<&'a RawValue>,
    /// What names this call for whoever sends it again.
    #[serde(borrow, default, rename = "io.taskgate/idempotency-key")]
    pub idempotency_key: Option<&'a RawValue>,
    /// Whether that call is only to be found.
    #[serde(borrow, default, rename = "io.taskgate/idempotency-find")]
    pub idempotency_find: Option<&'a RawValue>,
}

/// The name that a client gives itself in its `clientInfo`, if that can be read.
pub fn client_name(info: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Info {
        name: String,
    }
    serde_json::from_str::<Info>(info.get()).ok().map(|info| info.name)
}

/// The client capabilities that decide something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Can be asked for input by form.
    pub elicitation: bool,
    /// Can be sent to a URL for input.
    pub elicitation_url: bool,
    /// Can be asked for a model's answer.
    pub sampling: bool,
    /// Can be asked for its roots.
    pub roots: bool,
    /// Declares tasks of its own (2025-11-25): it knows what a task is.
    pub tasks: bool,
    /// Declares the tasks extension (counts under 2026-07-28 and later only).
    pub tasks_extension: bool,
}

#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(borrow, default)]
    elicitation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    sampling: Option<&'a RawValue>,
    #[serde(borrow, default)]
    roots: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tasks: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "object_member")]
    extensions: Option<Extensions<'a>>,
}

#[derive(Deserialize)]
struct Extensions<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/tasks")]
    tasks: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Elicitation<'a> {
    #[serde(borrow, default)]
    form: Option<&'a RawValue>,
    #[serde(borrow, default)]
    url: Option<&'a RawValue>,
}

impl Capabilities {
    /// Everything, for callers whose capabilities are not ours to restrict.
    pub const ALL: Capabilities = Capabilities {
        elicitation: true,
        elicitation_url: true,
        sampling: true,
        roots: true,
        tasks: true,
        tasks_extension: true,
    };

    /// Reads a capabilities object; `None` if it is not an object or a known member has the wrong type.
    pub fn parse(raw: &RawValue) -> Option<Self> {
        let shape: Shape = read_object(raw).ok()?;
        let (form, url) = match shape.elicitation {
            None => (false, false),
            Some(raw) => {
                let modes: Elicitation = read_object(raw).ok()?;
                // An empty object means form mode (2025-11-25, elicitation).
                (modes.form.is_some() || modes.url.is_none(), modes.url.is_some())
            }
        };
        Some(Capabilities {
            elicitation: form,
            elicitation_url: url,
            sampling: shape.sampling.is_some(),
            roots: shape.roots.is_some(),
            tasks: shape.tasks.is_some(),
            tasks_extension: shape.extensions.is_some_and(|extensions| extensions.tasks.is_some()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case 14: only the token goes, the rest keeps its spelling; without a token nothing is written anew.
    #[test]
    fn a_progress_token_stays_on_its_hop() {
        let strip = |text: &str| {
            let params = Payload::parse(text.to_owned()).expect("JSON");
            without_progress_token(params).as_str().to_owned()
        };
        assert_eq!(
            strip(r#"{"n":1.50,"_meta":{"x/y":1e2,"progressToken":7,"z":"\u00e9"},"message":"m"}"#),
            r#"{"n":1.50,"_meta":{"x/y":1e2,"z":"\u00e9"},"message":"m"}"#
        );
        assert_eq!(strip(r#"{"_meta":{"progressToken":"t"},"a":[ 1 ]}"#), r#"{"a":[ 1 ]}"#);
        for same in
            [r#"{ "a":1, "progressToken":2 }"#, r#"{"_meta":{ "x":1 }}"#, r#"{"_meta":7}"#, "[1]", "null"]
        {
            assert_eq!(strip(same), same);
        }
    }
}
