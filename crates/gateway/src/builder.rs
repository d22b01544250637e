use std::collections::HashMap;
use std::sync::Arc;

use taskgate_access::{Access, AccessConfig, Rules};
use taskgate_engine::{Engine, EngineError, MemoryStore, Store, StoreError};

use crate::audit::{Audit, Audited};
use crate::bounds::Limits;
use crate::gateway::{Door, Gateway};
use crate::policy::{Settings, ToolPolicy, UpstreamKind, UpstreamSpec};
use crate::pool::Pool;
use crate::reload::Common;
use crate::route::States;
use crate::rules::RuleBook;
use crate::server::http::{Tls, TlsError};
use crate::upstream::{Callbacks, Commands, Yard};
use crate::upstreams::Upstreams;

/// What a line with a result has besides the result, so that the longest one that is kept can also arrive, and one that is
/// a little longer be told by its length.
const AROUND_A_RESULT: usize = 1 << 20;

/// Puts a gateway together.
#[derive(Default)]
pub struct GatewayBuilder {
    upstreams: Vec<UpstreamSpec>,
    store: Option<Arc<dyn Store>>,
    settings: Settings,
    commands: Option<Commands>,
    default_policy: Option<ToolPolicy>,
    tools: HashMap<String, ToolPolicy>,
    rules: Option<Rules>,
}

/// Why no gateway could be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Two upstreams have the same name; stored tasks name their upstream, so names must be unique.
    #[error("two upstreams are named {0:?}")]
    DuplicateUpstream(String),
    /// A command outlives this process, and nobody has said where its next one finds it.
    #[error("the upstream {0:?} is a command, and there is no place for commands")]
    NoPlace(String),
    /// The place for commands cannot be used.
    #[error("the place for commands: {0}")]
    Place(#[from] taskgate_detached::DetachedError),
    /// A job API cannot be reached from here.
    #[error("the upstream {name:?}: {why}")]
    Job {
        /// The upstream.
        name: String,
        /// Why.
        why: String,
    },
    /// The certificate cannot be used.
    #[error("[tls]: {0}")]
    Tls(#[from] TlsError),
    /// The audit log cannot be written.
    #[error("[audit]: {0}")]
    Audit(String),
    /// There is nothing to stand in front of.
    #[error("there is no upstream")]
    NoUpstream,
    /// The tasks an earlier process left could not be settled.
    #[error("cannot settle the tasks of an earlier process: {0}")]
    Rescue(#[from] EngineError),
    /// Nobody can be let in as it is configured.
    #[error("[auth]: {0}")]
    Auth(String),
    /// The store does not give the secret that what callers carry for us is sealed with.
    #[error("the store keeps no secret: {0}")]
    Secret(#[from] StoreError),
}

impl GatewayBuilder {
    /// Adds an rmcp handler in this program as an upstream, named `upstream`.
    #[must_use]
    pub fn upstream<H: rmcp::ServerHandler>(self, handler: H) -> Self {
        self.upstream_named("upstream", handler)
    }

    /// Adds an rmcp handler in this program as an upstream.
    #[must_use]
    pub fn upstream_named<H: rmcp::ServerHandler>(self, name: &str, handler: H) -> Self {
        self.add(UpstreamSpec::new(name, crate::in_process(handler)))
    }

    /// Adds a child process that speaks MCP over stdio as an upstream.
    #[must_use]
    pub fn upstream_command(self, name: &str, command: crate::StdioCommand) -> Self {
        self.add(UpstreamSpec::new(name, UpstreamKind::Process(command)))
    }

    /// Adds a server that is a URL as an upstream.
    #[must_use]
    pub fn upstream_url(self, name: &str, server: crate::HttpServer) -> Self {
        self.add(UpstreamSpec::new(name, UpstreamKind::Http(server)))
    }

    /// Adds an upstream.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "nobody adds a builder and a server with a plus sign")]
    pub fn add(mut self, upstream: UpstreamSpec) -> Self {
        self.upstreams.push(upstream);
        self
    }

    /// Where tasks are kept. Without it they are kept in memory and gone with the process.
    #[must_use]
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Where tasks are kept, shared with others in this program.
    #[must_use]
    pub fn shared_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Settings of the servers.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Where commands run that are tools, and how their supervisors are started. Upstreams of that kind need it.
    #[must_use]
    pub fn commands(mut self, commands: Commands) -> Self {
        self.commands = Some(commands);
        self
    }

    /// All callers are one known user, `local`. For loopback servers only.
    #[must_use]
    pub fn single_user(mut self, on: bool) -> Self {
        self.settings.single_user = on;
        self
    }

    /// The policy of every tool that has none of its own, in all upstreams added so far and later.
    #[must_use]
    pub fn policy(mut self, policy: ToolPolicy) -> Self {
        self.default_policy = Some(policy);
        self
    }

    /// The policy of the tool with this name, in every upstream that has one.
    #[must_use]
    pub fn tool(mut self, name: &str, policy: ToolPolicy) -> Self {
        self.tools.insert(name.to_owned(), policy);
        self
    }

    /// Which tools callers may see and call. Without rules they may use all.
    #[must_use]
    pub fn rules(mut self, rules: Option<Rules>) -> Self {
        self.rules = rules;
        self
    }

    /// Connects the upstreams, settles what an earlier process left, and starts upkeep.
    pub async fn build(self) -> Result<Gateway, BuildError> {
        // Before anything is started: without it nobody could be served.
        let auth = self.settings.auth.clone();
        // Who can show something else need not show a certificate.
        let has_other =
            |auth: &AccessConfig| !auth.tokens.is_empty() || !auth.issuers.is_empty() || auth.proxy.is_some();
        let must_show = !auth.as_ref().is_some_and(|auth| auth.certificates.is_some() && has_other(auth));
        let tls = self.settings.tls.as_ref().map(|files| Tls::load(files, must_show)).transpose()?;
        let access = auth.map(Access::new).transpose().map_err(BuildError::Auth)?;
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let audit = self.settings.audit.as_ref().map(Audit::open).transpose().map_err(BuildError::Audit)?;
        let store = match &audit {
            Some(audit) => Arc::new(Audited::new(store, audit.clone())) as Arc<dyn Store>,
            None => store,
        };
        let engine = Engine::new(store, self.settings.node.clone())?;
        let callbacks = match &self.settings.public_url {
            Some(public_url) => Some(Callbacks::new(&engine, public_url).await?),
            None => None,
        };
        let yard = self.commands.map(|commands| Yard::open(commands, engine.is_shared())).transpose()?;
        let rights = self.settings.auth.as_ref().map(|auth| auth.rights.clone()).unwrap_or_default();
        let common = Common {
            rules: RuleBook::new(self.rules, rights),
            policy: self.default_policy,
            tools: self.tools,
            longest_line: self.settings.node.max_result + AROUND_A_RESULT,
            yard: yard.clone(),
            callbacks: callbacks.clone(),
            changes: Common::channel(),
        };
        let specs = common.complete(self.upstreams)?;
        let states = States::new(&engine).await?;
        let owns = specs.iter().map(|spec| common.own_runner(spec)).collect::<Result<Vec<_>, _>>()?;
        let limits = Limits::new(self.settings.limits.clone());
        let pool = Pool::new(common, &self.settings, limits.clone());
        let upstreams = specs.into_iter().zip(owns).map(|(spec, own)| pool.start(spec, own, false));
        *pool.all.write() = Upstreams::new(upstreams.collect());
        for upstream in pool.all().iter() {
            engine.add_runner(upstream.name(), pool.runner(upstream));
        }
        let rescued = engine.rescue().await?;
        if rescued > 0 {
            tracing::info!(rescued, "settled tasks that an earlier process left unfinished");
        }
        engine.start_upkeep();
        let door = Door { audit, limits, access, tls };
        let gateway = Gateway::new(engine, pool, self.settings, states, callbacks, door);
        if let Some(yard) = yard {
            gateway.keep_tidy(yard);
        }
        Ok(gateway)
    }
}
