//! Files that nobody has named are believed only if they are the user's own: what is in them is started as a program.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whoever may do anything on this machine.
const ROOT: u32 = 0;
/// Whether everybody may write.
const BY_EVERYBODY: u32 = 0o002;

/// Reads a file that belongs to the user who runs this, or to root.
///
/// # Errors
///
/// That it cannot be read, or why it is not believed and what to do.
pub fn read(path: &Path) -> io::Result<String> {
    // What is looked at is what is read, whatever becomes of the path meanwhile.
    let mut file = File::open(path)?;
    let user = rustix::process::geteuid().as_raw();
    let links = path.ancestors().take(2).filter_map(|part| part.symlink_metadata().ok());
    // A link that somebody else has made leads where that one wants.
    let foreign = links.filter(Metadata::is_symlink).find_map(|link| distrusted(link.uid(), 0, user));
    let facts = file.metadata()?;
    if let Some(why) = foreign.or_else(|| distrusted(facts.uid(), facts.mode(), user)) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("it {why}, and could start anything; if you trust it, name it with --config"),
        ));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

fn distrusted(owner: u32, mode: u32, user: u32) -> Option<String> {
    if owner != ROOT && owner != user {
        return Some(format!("belongs to another user ({owner})"));
    }
    (mode & BY_EVERYBODY != 0).then(|| "can be written by everybody".to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_users_own_files_are_believed() {
        for (owner, mode, user, why) in [
            (1000, 0o100_644, 1000, None),
            (1000, 0o100_664, 1000, None),
            (0, 0o100_644, 1000, None),
            (1001, 0o100_644, 1000, Some("another user (1001)")),
            (1000, 0o100_644, 0, Some("another user (1000)")),
            (1000, 0o100_666, 1000, Some("by everybody")),
        ] {
            let told = distrusted(owner, mode, user);
            assert_eq!(told.is_some(), why.is_some(), "{told:?}");
            assert!(told.unwrap_or_default().contains(why.unwrap_or_default()));
        }
    }

    #[test]
    fn a_file_that_everybody_can_write_is_not_read() {
        let home = tempfile::tempdir().expect("a directory");
        let file = home.path().join(".mcp.json");
        std::fs::write(&file, "{}").expect("written");
        assert_eq!(read(&file).expect("believed"), "{}");
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        assert_eq!(read(&link).expect("a link of one's own"), "{}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).expect("set");
        let error = read(&file).expect_err("not believed");
        assert!(error.to_string().contains("--config"), "{error}");
    }
}
