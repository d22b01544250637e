//! Where the keys of the store are.

use taskgate_credentials::Source;

use super::*;

const HEX: &str = "0101010101010101010101010101010101010101010101010101010101010101";

fn with(keys: &str) -> Result<Config, ConfigErrors> {
    let text = format!("[encryption]\nkeys = {keys}\n{LEAST}");
    let env = |name: &str| match name {
        "KEY" => Some(format!("{HEX}\n")),
        "SECRET" => Some("sesame".to_owned()),
        _ => None,
    };
    Config::parse_with(&text, "taskgate.toml", Path::new("/etc/taskgate"), &env)
}

fn refused(keys: &str) -> String {
    let shown = with(keys).expect_err("has problems").to_string();
    assert!(!shown.contains("sesame") && !shown.contains(HEX), "{shown}");
    shown
}

#[test]
fn keys_come_from_files_variables_and_commands() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("key");
    fs::write(&file, format!("{HEX}\n")).expect("written");
    let keys = format!(
        "[{{ from_file = {:?} }}, {{ from_env = \"KEY\" }}, {{ from_command = [\"kms\", \"--name\", \"a\"] }}]",
        file.display()
    );
    let config = with(&keys).expect("valid");
    let shown: Vec<String> = config.encryption.iter().map(Source::to_string).collect();
    let of_file = format!("the file {}", file.display());
    assert_eq!(shown, [of_file.as_str(), "the environment variable KEY", "the command kms"]);
    assert!(valid(LEAST).encryption.is_empty());
    // Written out, it says the same, and nothing of the keys.
    let printed = config.to_toml();
    assert!(!printed.contains(HEX));
    let line = printed.lines().find(|line| line.starts_with("keys = ")).expect("the keys");
    let again = with(line.trim_start_matches("keys = ")).expect("valid");
    assert_eq!(again.encryption, config.encryption);
}

#[test]
fn what_is_no_key_is_told_without_a_word_of_it() {
    for (keys, why) in [
        ("[]", "[encryption] has no `keys`"),
        ("[{}]", "a key comes from one place"),
        ("[{ from_env = \"KEY\", from_file = \"a\" }]", "a key comes from one place"),
        ("[{ from_env = \"NOWHERE\" }]", "the environment variable NOWHERE is not set"),
        ("[{ from_env = \"SECRET\" }]", "is no key: it must be 32 bytes"),
        ("[{ from_file = \"nowhere\" }]", "the file /etc/taskgate/nowhere cannot be read"),
        ("[{ from_command = [] }]", "`from_command` names no program"),
        ("[{ from_command = \"kms\" }]", "`from_command` must be an array of strings"),
        ("[{ file = \"key\" }]", "unknown key `file`"),
        ("[\"word\"]", "`keys` has a string among its tables"),
        ("\"word\"", "`keys` must be an array of tables"),
    ] {
        let shown = refused(keys);
        assert!(shown.contains(why), "{keys}: {shown}");
    }
    let bare = Config::parse(&format!("[encryption]\n{LEAST}"), "taskgate.toml").expect_err("has problems");
    assert!(bare.to_string().contains("has no `keys`"), "{bare}");
}
