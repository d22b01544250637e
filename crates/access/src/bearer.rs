use crate::refusal::Refusal;

/// The longest token, in bytes. Those with many claims are a few thousand long.
const LONGEST: usize = 16 << 10;

/// The token of an `Authorization` header (RFC 6750, 2.1). Other schemes count as nothing at all.
pub fn token(header: Option<&[u8]>) -> Result<&str, Refusal> {
    let text = header.ok_or(Refusal::Missing)?;
    let text = std::str::from_utf8(text).map_err(|_| Refusal::Malformed("it is not ASCII text"))?;
    let (scheme, rest) = text.trim_matches([' ', '\t']).split_once([' ', '\t']).unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Refusal::Missing);
    }
    let token = rest.trim_matches([' ', '\t']);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    match token {
        "" => Err(Refusal::Missing),
        _ if token.len() > LONGEST => Err(Refusal::Malformed("it is longer than 16 KiB")),
        _ if !token.bytes().all(is_plain) => Err(Refusal::Malformed("it has a character that no token has")),
        _ => Ok(token),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_what_follows_the_word_bearer() {
        for (header, read) in [
            ("Bearer abc", Ok("abc")),
            ("bearer  a.b-c_d~e+f/g==  ", Ok("a.b-c_d~e+f/g==")),
            ("BEARER\tabc", Ok("abc")),
            ("Bearer", Err(Refusal::Missing)),
            ("Bearer ", Err(Refusal::Missing)),
            ("Basic abc", Err(Refusal::Missing)),
            ("abc", Err(Refusal::Missing)),
            ("", Err(Refusal::Missing)),
            ("Bearer a b", Err(Refusal::Malformed("it has a character that no token has"))),
            ("Bearer a,b", Err(Refusal::Malformed("it has a character that no token has"))),
        ] {
            assert_eq!(token(Some(header.as_bytes())), read, "{header}");
        }
        assert_eq!(token(None), Err(Refusal::Missing));
        assert!(matches!(token(Some(b"Bearer \xff")), Err(Refusal::Malformed(_))));
        let long = format!("Bearer {}", "a".repeat(LONGEST + 1));
        assert!(matches!(token(Some(long.as_bytes())), Err(Refusal::Malformed(_))));
    }
}
