//! `taskgate serve`: the Streamable HTTP server in front of the configured upstreams.

use std::net::SocketAddr;

use taskgate_gateway::{
    Config, Gateway, StorePlace, UpstreamServer, UpstreamSpec, check_single_user, in_process,
};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::admin;
use crate::args::Serve;
use crate::demo::Demo;
use crate::exit_code::{ExitCode, Failure};
use crate::reload::Reload;
use crate::shutdown::Shutdown;
use crate::store;

/// The configuration that is used without `--config`. It is the example file itself, so that the two cannot differ.
const QUICKSTART: &str = include_str!("../../../../examples/quickstart.toml");

/// Serves until a signal comes.
pub async fn run(args: Serve, shutdown: &Shutdown) -> Result<(), Failure> {
    let config = configure(&args)?;
    let place = match config.store.clone() {
        Some(place) => place,
        None => store::serve_place()?,
    };
    has_place_for_commands(&config, &place)?;
    // The address comes before the upstreams: if it is taken, no server has been started in vain.
    let listener =
        TcpListener::bind(config.listen).await.map_err(|error| no_address(config.listen, &error))?;
    let address = listener.local_addr().map_err(|error| no_address(config.listen, &error))?;
    let metrics = match config.metrics {
        Some(at) => Some(TcpListener::bind(at).await.map_err(|error| no_address(at, &error))?),
        None => None,
    };
    let mut builder =
        Gateway::builder().shared_store(store::open(&place).await?).settings(config.settings.clone());
    if let Some(commands) = store::commands(&place) {
        builder = builder.commands(commands);
    }
    // Caught from here on: without that, SIGHUP ends the program.
    let hangup = match args.config.is_some() {
        true => Some(signal(SignalKind::hangup()).map_err(|error| Failure::new(ExitCode::Failure, error))?),
        false => None,
    };
    // The same one each time the file is read, so that it stays connected.
    let demo = in_process(Demo);
    let specs = |config: &Config| -> Vec<UpstreamSpec> {
        config.upstreams.iter().map(|upstream| upstream.spec(|| demo.clone())).collect()
    };
    for spec in specs(&config) {
        builder = builder.add(spec);
    }
    builder = builder.rules(config.rules.clone());
    let gateway = builder.build().await.map_err(|error| Failure::new(ExitCode::Failure, error))?;
    let _admin = admin::serve(&gateway, &place);
    if config.settings.audit.is_some() {
        reopen_audit_on(
            signal(SignalKind::hangup()).map_err(|error| Failure::new(ExitCode::Failure, error))?,
            &gateway,
        );
    }
    eprintln!("{}", greeting(&config, address, &place));
    if let Some(listener) = metrics {
        if let Ok(address) = listener.local_addr() {
            eprintln!("taskgate: numbers at http://{address}/metrics");
        }
        let gateway = gateway.clone();
        tokio::spawn(async move {
            if let Err(error) = gateway.serve_metrics(listener).await {
                tracing::error!(%error, "the numbers are no longer served");
            }
        });
    }
    let serving = gateway.serve_http(listener, shutdown.begun());
    let served = match (&args.config, hangup) {
        (Some(file), Some(hangup)) => {
            let apply = |config: &Config| gateway.reload_with_rules(specs(config), config.rules.clone());
            tokio::select! {
                served = serving => served,
                () = Reload::of(file, config.clone()).watch(hangup, || configure(&args), apply) => Ok(()),
            }
        }
        _ => serving.await,
    };
    served.map_err(|error| Failure::new(ExitCode::Failure, format!("the HTTP server failed: {error}")))
}

/// Opens the audit log anew whenever its file may have been moved away.
fn reopen_audit_on(mut hangup: Signal, gateway: &Gateway) {
    let gateway = gateway.clone();
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            gateway.reopen_audit();
        }
    });
}

/// The configuration with what the command line says put over it.
fn configure(args: &Serve) -> Result<Config, Failure> {
    let config = match &args.config {
        Some(file) => Config::load(file),
        None => Config::parse(QUICKSTART, "examples/quickstart.toml"),
    };
    let mut config = config.map_err(|errors| {
        Failure::new(ExitCode::Invalid, format!("the configuration is not valid\n\n{errors}"))
    })?;
    config.listen = args.listen.unwrap_or(config.listen);
    config.store = args.store.clone().or(config.store);
    config.settings.single_user |= args.single_user;
    config.settings.reloads = args.config.is_some();
    if args.single_user && config.settings.auth.is_some() {
        let why = "--single-user takes every caller for the same one, and the [auth] of the file tells them apart; leave out one of the two";
        return Err(Failure::new(ExitCode::Invalid, why));
    }
    if let Some(rules) = &config.rules {
        super::check::warnings(rules).for_each(|warning| tracing::warn!("{warning}"));
    }
    if config.settings.single_user {
        // Who has written no configuration has not asked for a single user.
        let help = if args.config.is_none() {
            "; the demo is for one user, to serve others write a --config"
        } else {
            ""
        };
        let refused = |why| Failure::new(ExitCode::Invalid, format!("{why}{help}"));
        check_single_user(config.listen).map_err(refused)?;
    }
    Ok(config)
}

/// The configuration is checked for it, too, but the command line may say otherwise.
pub(super) fn has_place_for_commands(config: &Config, place: &StorePlace) -> Result<(), Failure> {
    let external = config.upstreams.iter().find_map(|upstream| match upstream.server {
        UpstreamServer::Run(_) => Some((&upstream.name, "command")),
        UpstreamServer::Job(_) => Some((&upstream.name, "job")),
        UpstreamServer::Command(_) | UpstreamServer::Url(_) | UpstreamServer::Demo => None,
    });
    match (external, place) {
        (Some((name, what)), StorePlace::Memory) => Err(Failure::new(
            ExitCode::Invalid,
            format!(
                "the {what} of the upstream {name:?} outlives taskgate, and tasks in memory do not; keep them in a file with --store"
            ),
        )),
        _ => Ok(()),
    }
}

fn no_address(listen: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::new(ExitCode::AddressUnavailable, format!("cannot listen on {listen}: {error}"))
}

/// The one line that tells a person what to do next.
fn greeting(config: &Config, address: SocketAddr, place: &StorePlace) -> String {
    let names: Vec<&str> = config.upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
    let (path, place) = (&config.settings.path, store::shown(place));
    let scheme = if config.settings.tls.is_some() { "https" } else { "http" };
    format!("taskgate: serving {} at {scheme}://{address}{path}, tasks in {place}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> Serve {
        Serve { config: None, listen: None, store: None, single_user: false }
    }

    #[test]
    fn without_a_file_the_demo_is_served_to_one_user_of_this_machine() {
        let config = configure(&args()).expect("valid");
        assert!(config.settings.single_user && config.listen.ip().is_loopback());
        let place = StorePlace::Sqlite("/state/taskgate.db".into());
        assert_eq!(
            greeting(&config, config.listen, &place),
            "taskgate: serving demo at http://127.0.0.1:8000/mcp, tasks in /state/taskgate.db"
        );
    }

    #[test]
    fn a_single_user_is_refused_where_others_can_connect() {
        let listen = Some("0.0.0.0:8000".parse().expect("address"));
        let failure = configure(&Serve { listen, ..args() }).expect_err("is refused");
        assert_eq!(failure.code, ExitCode::Invalid);
        assert!(failure.message.contains("--config"), "{}", failure.message);
    }

    /// Tasks of many must not become those of one because of a word on the command line.
    #[test]
    fn a_single_user_is_refused_where_callers_are_told_apart() {
        let directory = tempfile::tempdir().expect("directory");
        let file = directory.path().join("taskgate.toml");
        let hash = "0".repeat(64);
        let auth =
            format!("[auth]\nresource = \"https://a\"\ntoken = [{{ name = \"a\", sha256 = \"{hash}\" }}]\n");
        std::fs::write(&file, format!("{auth}[[upstream]]\nname = \"x\"\ndemo = true\n")).expect("write");
        let config = configure(&Serve { config: Some(file.clone()), ..args() }).expect("valid");
        assert!(config.settings.auth.is_some());
        let failure =
            configure(&Serve { config: Some(file), single_user: true, ..args() }).expect_err("is refused");
        assert!(
            failure.code == ExitCode::Invalid && failure.message.contains("[auth]"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn a_command_needs_a_store_that_lasts() {
        let text = "[[upstream]]\nname = \"jobs\"\n[upstream.run]\ntool = \"render\"\ncommand = [\"true\"]\n";
        let config = Config::parse(text, "taskgate.toml").expect("valid");
        assert_eq!(has_place_for_commands(&config, &StorePlace::Sqlite("/a.db".into())), Ok(()));
        let failure = has_place_for_commands(&config, &StorePlace::Memory).expect_err("is refused");
        assert_eq!(failure.code, ExitCode::Invalid);
        assert!(
            failure.message.contains("jobs") && failure.message.contains("--store"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn the_command_line_goes_before_the_file() {
        let directory = tempfile::tempdir().expect("directory");
        let file = directory.path().join("taskgate.toml");
        let text = "listen = \"127.0.0.1:1\"\nstore = \"a.db\"\n[[upstream]]\nname = \"x\"\ndemo = true\n";
        std::fs::write(&file, text).expect("write");
        let written = configure(&Serve { config: Some(file.clone()), ..args() }).expect("valid");
        assert_eq!(written.store, Some(StorePlace::Sqlite(directory.path().join("a.db"))));
        assert!(!written.settings.single_user);
        let listen = Some("127.0.0.1:2".parse().expect("address"));
        let store = Some(StorePlace::Memory);
        let config =
            configure(&Serve { config: Some(file), listen, store, single_user: true }).expect("valid");
        assert_eq!((config.listen.port(), config.store), (2, Some(StorePlace::Memory)));
        assert!(config.settings.single_user);
    }
}
