use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_access::{Access, Identity};
use taskgate_engine::{Description, Engine, Launch};
use taskgate_task::{Owner, TaskId, WorkClass};
use taskgate_wire::tool::{ParamHeader, ToolFacts};
use taskgate_wire::{ErrorCode, ListKind, RpcError};
use tokio::sync::{Notify, watch};

use crate::audit::Audit;
use crate::bounds::Limits;
use crate::builder::GatewayBuilder;
use crate::policy::{Settings, ToolPolicy};
use crate::pool::Pool;
use crate::route::{Parked, States};
use crate::rules::RuleBook;
use crate::server::Sessions;
use crate::server::http::Tls;
use crate::upstream::{Callbacks, Discreet, Marks, McpRunner, Request, Upstream, Yard};
use crate::upstreams::Upstreams;

/// The gateway: upstreams, engine and the servers in front of them. Cheap to clone.
#[derive(Clone)]
pub struct Gateway(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) pool: Arc<Pool>,
    pub(crate) settings: Settings,
    pub(crate) limits: Arc<Limits>,
    /// Where it is kept who has done what, if it is.
    pub(crate) audit: Option<Audit>,
    /// Who lets callers in, if they need a token.
    pub(crate) access: Option<Access>,
    /// Which tools they may use.
    pub(crate) rules: Arc<RuleBook>,
    pub(crate) sessions: Sessions,
    pub(crate) parked: Parked,
    pub(crate) states: States,
    /// Where APIs tell of news of their jobs, if they can reach us.
    pub(crate) callbacks: Option<Arc<Callbacks>>,
    /// With which connections are encrypted, if they are.
    pub(crate) tls: Option<Tls>,
    /// Questions that are out on some stream: each is asked once at a time, whoever could ask it.
    pub(crate) asking: Mutex<HashSet<(TaskId, String)>>,
    /// One of them is no longer out, so that someone else may ask it.
    pub(crate) asking_freed: Notify,
    pub(crate) shutdown: watch::Sender<bool>,
}

/// How long answers that are ready at the end of a drain have to leave.
pub(crate) const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(250);

/// How often to look which commands can be cleared away.
const TIDY_EVERY: std::time::Duration = std::time::Duration::from_millis(500);

/// What stands between the gateway and whoever connects.
pub(crate) struct Door {
    pub(crate) audit: Option<Audit>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) access: Option<Access>,
    pub(crate) tls: Option<Tls>,
}

/// Where a request goes: to a tool of an upstream, or just to an upstream.
pub(crate) struct Target {
    pub(crate) upstream: Arc<Upstream>,
    /// What is known of the tool, its upstream's own name for it first of all; `None` for what is no tool.
    pub(crate) tool: Option<Arc<ToolFacts>>,
    pub(crate) policy: ToolPolicy,
}

impl Target {
    /// An upstream, for what is no tool.
    pub(crate) fn plain(upstream: Arc<Upstream>) -> Self {
        Target { upstream, tool: None, policy: ToolPolicy::never() }
    }

    /// The headers that a 2026-07-28 caller mirrors its arguments into.
    pub(crate) fn headers(&self) -> &[ParamHeader] {
        self.tool.as_ref().map_or(&[], |tool| &tool.headers)
    }
}

impl Gateway {
    /// Starts putting a gateway together.
    pub fn builder() -> GatewayBuilder {
        GatewayBuilder::default()
    }

    pub(crate) fn new(
        engine: Engine,
        pool: Arc<Pool>,
        settings: Settings,
        states: States,
        callbacks: Option<Arc<Callbacks>>,
        Door { audit, limits, access, tls }: Door,
    ) -> Self {
        let gateway = Gateway(Arc::new(Inner {
            engine,
            rules: pool.common.rules.clone(),
            pool,
            settings,
            limits,
            audit,
            access,
            sessions: Sessions::default(),
            parked: Parked::default(),
            states,
            callbacks,
            tls,
            asking: Mutex::default(),
            asking_freed: Notify::new(),
            shutdown: watch::Sender::new(false),
        }));
        gateway.start_upkeep();
        gateway.0.pool.keep_tidy();
        gateway
    }

    /// The engine behind it: the same handle the console and the admin commands use.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The upstreams as this owner sees them now.
    pub(crate) async fn upstreams(&self, owner: &Owner) -> Upstreams {
        self.0.pool.of(owner).await
    }

    /// What is configured for its servers.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The names of the upstreams and where each stands.
    pub fn upstream_states(&self) -> Vec<(String, crate::UpstreamState)> {
        self.0.pool.all().iter().map(|upstream| (upstream.name().to_owned(), upstream.state())).collect()
    }

    /// Resolves when the shutdown has begun.
    pub(crate) async fn shutting_down(&self) {
        let _ = self.0.shutdown.subscribe().wait_for(|down| *down).await;
    }

    /// Shuts down in good order: ends subscriptions, starts nothing new, lets running work finish within the grace
    /// time, hands over the rest as the crash rules say.
    pub async fn drain(&self) {
        self.drain_after(std::future::ready(())).await;
    }

    /// The same, but what was asked for already is still begun, until `begun` resolves or the grace time is over.
    pub(crate) async fn drain_after(&self, begun: impl Future<Output = ()>) {
        let deadline = tokio::time::Instant::now() + self.0.settings.drain_grace;
        self.0.shutdown.send_replace(true);
        // Calls that wait for answers cannot get them any more.
        self.0.parked.clear();
        let _ = tokio::time::timeout_at(deadline, begun).await;
        self.0.engine.drain(deadline.saturating_duration_since(tokio::time::Instant::now())).await;
        // Whoever waited for a task that was handed over hears so.
        let _ = tokio::time::timeout(LAST_WORDS, self.0.sessions.quiet()).await;
        self.0.sessions.end_all();
        self.0.pool.say_goodbye().await;
        if let Some(audit) = &self.0.audit {
            audit.flush().await;
        }
    }

    /// Opens the file of the audit log again, if there is one: whoever has moved it away wants that.
    pub fn reopen_audit(&self) {
        self.0.audit.iter().for_each(Audit::reopen);
    }

    /// The owner of an unauthenticated HTTP caller.
    pub(crate) fn http_owner(&self) -> Owner {
        if self.0.settings.single_user { Owner::local() } else { Owner::anonymous() }
    }

    fn start_upkeep(&self) {
        let inner = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(std::time::Duration::from_secs(5));
            loop {
                ticks.tick().await;
                let Some(inner) = inner.upgrade() else { return };
                inner.sessions.tidy(&inner.settings);
                inner.parked.drop_expired();
                inner.limits.tidy();
            }
        });
    }

    /// Clears away commands that nobody wants any more, until the shutdown begins.
    pub(crate) fn keep_tidy(&self, yard: Arc<Yard>) {
        let inner = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(TIDY_EVERY);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(engine) = inner.upgrade().map(|inner| inner.engine.clone()) else { return };
                if engine.is_draining() {
                    return;
                }
                yard.tidy(&engine).await;
            }
        });
    }

    /// Finds a tool by the name this owner uses. One that the rules keep from whoever has this identity is not found, or refused
    /// for the reason that they give.
    pub(crate) async fn look_for_tool(
        &self,
        owner: &Owner,
        identity: Option<&Identity>,
        name: &str,
    ) -> Result<Target, RpcError> {
        let upstreams = self.upstreams(owner).await;
        let mut found = look_up(&upstreams, name);
        if found.is_none() {
            // It may be new, or its upstream may still be starting.
            let renewed = async |upstream: &Arc<Upstream>, kind| upstream.renew(kind).await;
            let look = || look_up(&upstreams, name);
            let find = upstreams.find(&[ListKind::Tools], |_, _| true, renewed, look);
            // Boxed: whoever calls a tool that is known need not make room for this.
            found = Box::pin(find).await;
        }
        if let Some((_, target)) = found
            && self.0.rules.lets(owner, identity, &target, name)?
        {
            return Ok(target);
        }
        if let [only] = &*upstreams {
            // A single upstream that is down is the reason, not the tool's name.
            only.session(owner).await?;
        }
        Err(upstreams.unknown(ListKind::Tools, name))
    }

    /// Finds a tool that is to be called: one whose scopes the caller does not have is not called by it.
    pub(crate) async fn find_tool(
        &self,
        owner: &Owner,
        identity: Option<&Identity>,
        name: &str,
    ) -> Result<Target, RpcError> {
        let target = self.look_for_tool(owner, identity, name).await?;
        self.check_scopes(identity, &target)?;
        Ok(target)
    }

    /// Looks at the scopes that the tool which was found needs. Whoever is let in has been looked at before, but by then the tool may not
    /// have been known, and with it the name by which its server knows it.
    fn check_scopes(&self, identity: Option<&Identity>, target: &Target) -> Result<(), RpcError> {
        let (Some(access), Some(identity), Some(tool)) = (&self.0.access, identity, &target.tool) else {
            return Ok(());
        };
        let checked = access.rights().check(identity, [], [tool.name.as_str()]);
        checked.map_err(|refusal| RpcError::new(ErrorCode::InvalidRequest, refusal.to_string()))
    }

    /// What is needed to start a call of this tool.
    pub(crate) fn launch(
        &self,
        target: &Target,
        owner: Owner,
        request: Request,
        immediate: Option<String>,
    ) -> Result<Launch, RpcError> {
        // What is no call of its tool, what is no server does not know: the words that list it say so.
        let own = target.tool.as_ref().and_then(|_| target.upstream.own_runner());
        let class = match target.policy.class {
            _ if own.is_some() => WorkClass::External,
            Some(class) => class,
            None if request.task_ttl.is_some() => WorkClass::Resumable,
            None if target.tool.as_ref().is_some_and(|tool| tool.repeatable) => WorkClass::Repeatable,
            None => WorkClass::Live,
        };
        Ok(Launch {
            owner,
            runner: target.upstream.name().to_owned(),
            with: Discreet::before(
                Marks::of_tool(&target.policy),
                own.unwrap_or_else(|| Arc::new(McpRunner(Arc::downgrade(&target.upstream)))),
            ),
            work: Description::of(request).map_err(|error| RpcError::internal(error.to_string()))?,
            class,
            max_attempts: target.policy.max_attempts,
            lifetime: target.policy.lifetime,
            poll_interval: target.policy.poll_interval,
            immediate,
            queued: None,
        })
    }
}

fn look_up(upstreams: &Upstreams, name: &str) -> Option<(usize, Target)> {
    upstreams.iter().enumerate().find_map(|(index, upstream)| {
        let catalog = upstream.catalog(ListKind::Tools);
        let known = upstreams.find_known(ListKind::Tools, upstream, &catalog, name)?;
        let tool = Some(known.facts.clone()?);
        let policy = upstream.spec().policy_of(&known.key).clone();
        Some((index, Target { upstream: upstream.clone(), tool, policy }))
    })
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("engine", &self.0.engine).finish_non_exhaustive()
    }
}
