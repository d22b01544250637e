//! A network of its own for a program, joined to ours by a cable that can be pulled.

use std::ffi::OsStr;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};

/// A Linux network namespace with a loopback device and one end of a virtual cable. It goes when this value or the process
/// does and no program runs in it any more, and the cable with it.
pub struct Namespace {
    /// Holds the namespace. It reads a pipe of ours, so it ends however we do.
    holder: Child,
    cable: String,
    third: u8,
}

impl Namespace {
    /// Makes one, or says what is missing for that.
    pub fn make() -> Result<Namespace, String> {
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "sh", "-c", "echo there && exec cat"]);
        let holder = unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut holder = holder.map_err(|error| format!("unshare: {error}"))?;
        let mut said = [0; 6];
        // It says so when it is in the namespace, and nothing if it may not make one.
        let is_there = holder.stdout.take().is_some_and(|mut out| out.read_exact(&mut said).is_ok());
        let pid = holder.id();
        let third = u8::try_from(pid % 250).map_err(|error| error.to_string())?;
        let namespace = Namespace { holder, cable: format!("tgproof{pid}"), third };
        if !is_there {
            return Err("unshare may not make a network namespace".to_owned());
        }
        let cable = namespace.cable.as_str();
        run(Command::new("ip")
            .args(["link", "add", cable, "type", "veth", "peer", "name", "cable"])
            .args(["netns", &pid.to_string()]))?;
        run(Command::new("ip").args([
            "address",
            "add",
            &format!("{}/30", namespace.outside()),
            "dev",
            cable,
        ]))?;
        run(Command::new("ip").args(["link", "set", cable, "up"]))?;
        let inside = format!("{}/30", namespace.inside());
        for arguments in [
            &["link", "set", "lo", "up"][..],
            &["address", "add", &inside, "dev", "cable"],
            &["link", "set", "cable", "up"],
        ] {
            run(&mut namespace.enter("ip", arguments))?;
        }
        Ok(namespace)
    }

    /// Our end of the cable. The block is one that is set aside for tests of networks (RFC 2544).
    pub fn outside(&self) -> IpAddr {
        Ipv4Addr::new(198, 18, self.third, 1).into()
    }

    /// The other end.
    pub fn inside(&self) -> IpAddr {
        Ipv4Addr::new(198, 18, self.third, 2).into()
    }

    /// The same program with the same arguments, in there.
    pub fn command(&self, command: &Command) -> Command {
        self.enter(command.get_program(), command.get_args())
    }

    /// From now on whatever is sent in either direction is lost, and nobody is told.
    #[track_caller]
    pub fn pull(&self) {
        run(Command::new("ip").args(["link", "set", &self.cable, "down"])).expect("the cable is there");
    }

    /// Undoes [`Namespace::pull`].
    #[track_caller]
    pub fn plug(&self) {
        run(Command::new("ip").args(["link", "set", &self.cable, "up"])).expect("the cable is there");
    }

    fn enter(
        &self,
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.holder.id())).arg(program).args(arguments);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim_end()))
}
