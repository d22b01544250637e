use std::fmt;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::identity::Identity;

/// The SHA-256 of a token: enough to know it again, and worthless to whoever reads the configuration.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

/// A token that is written in the configuration, by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticToken {
    /// Whose it is. Tasks belong to this name, so that a token can be replaced.
    pub name: String,
    /// What it is.
    pub hash: TokenHash,
    /// What it allows.
    pub scopes: Vec<String>,
}

impl TokenHash {
    /// The hash of a token.
    pub fn of(token: &str) -> TokenHash {
        TokenHash(Sha256::digest(token.as_bytes()).into())
    }

    /// Reads a hash as it is written: 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<TokenHash> {
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).ok()?;
            // `from_str_radix` would take a sign.
            let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            *byte = u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
        }
        Some(TokenHash(hash))
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

/// Whose token it is. All are compared, each in the same time, so that nothing is learned from how long it takes.
pub fn find(tokens: &[StaticToken], hash: &TokenHash) -> Option<Identity> {
    let (mut is_found, mut place) = (Choice::from(0), 0_u64);
    for (index, token) in (0_u64..).zip(tokens) {
        let same = token.hash.0.ct_eq(&hash.0);
        place.conditional_assign(&index, same);
        is_found |= same;
    }
    let token = tokens.get(usize::try_from(place).ok()?)?;
    bool::from(is_found).then(|| Identity::named(&token.name, &token.scopes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_hash() {
        // What `printf secret | sha256sum` prints.
        let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        assert_eq!(TokenHash::of("secret").to_string(), hash);
        let token =
            |name: &str, hash| StaticToken { name: name.to_owned(), hash, scopes: vec!["s".to_owned()] };
        let tokens = [
            token("a", TokenHash::of("x")),
            token("b", TokenHash::parse(&hash.to_uppercase()).expect("a hash")),
        ];
        let found = find(&tokens, &TokenHash::of("secret")).expect("known");
        assert_eq!((found.owner.as_str(), found.scopes.len()), ("token b", 1));
        assert_eq!(find(&tokens, &TokenHash::of("Secret")), None);
        assert_eq!(find(&[], &TokenHash::of("secret")), None);
        for bad in ["", &hash[1..], &format!("{hash}0"), &hash.replace('2', "g"), &hash.replace("2b", "+b")] {
            assert_eq!(TokenHash::parse(bad), None, "{bad}");
        }
    }
}
