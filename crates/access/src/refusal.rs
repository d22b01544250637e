use std::fmt;

/// Why a caller is not let in, or may not do what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It shows no token.
    Missing,
    /// It shows more than one, or in a way that cannot be read.
    Ambiguous,
    /// What it shows cannot be a token, and why.
    Malformed(&'static str),
    /// The token is none that is known here.
    Unknown,
    /// It is signed with an algorithm that is not taken from its issuer.
    Algorithm,
    /// It is signed with a key that its issuer does not have.
    UnknownKey,
    /// Its signature is not that of its text.
    BadSignature,
    /// It is from an issuer that is not configured here, or says none.
    WrongIssuer,
    /// It is for someone else.
    WrongAudience,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    NotYetValid,
    /// It does not say when it ends.
    NoExpiry,
    /// It says for nobody.
    NoSubject,
    /// Its issuer says that it is not, or no longer, good.
    Inactive,
    /// The certificate that was shown cannot be used, and why.
    Certificate(&'static str),
    /// It does not allow this: all of these scopes are needed.
    InsufficientScope(Vec<String>),
    /// Nobody can say now whether it is good.
    Unavailable(&'static str),
}

impl Refusal {
    /// The HTTP status (RFC 6750, 3.1).
    pub fn status(&self) -> u16 {
        match self {
            Refusal::Ambiguous => 400,
            Refusal::InsufficientScope(_) => 403,
            Refusal::Unavailable(_) => 503,
            Refusal::Missing
            | Refusal::Malformed(_)
            | Refusal::Unknown
            | Refusal::Algorithm
            | Refusal::UnknownKey
            | Refusal::BadSignature
            | Refusal::WrongIssuer
            | Refusal::WrongAudience
            | Refusal::Expired
            | Refusal::NotYetValid
            | Refusal::NoExpiry
            | Refusal::NoSubject
            | Refusal::Inactive
            | Refusal::Certificate(_) => 401,
        }
    }

    /// The word for it in `WWW-Authenticate`; none for who showed no token, who need not know more.
    pub fn word(&self) -> Option<&'static str> {
        match self.status() {
            400 => Some("invalid_request"),
            403 => Some("insufficient_scope"),
            401 if !matches!(self, Refusal::Missing | Refusal::Certificate(_)) => Some("invalid_token"),
            _ => None,
        }
    }

    /// What the caller is told to ask for, if it is about scopes.
    pub fn scopes(&self) -> Option<&[String]> {
        match self {
            Refusal::InsufficientScope(scopes) => Some(scopes),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    /// What is wrong and what to do, without a word of the token. Neither quotes nor backslashes, which a header could not carry.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Missing => "an access token is needed: send it in the header Authorization as Bearer TOKEN",
            Refusal::Ambiguous => "the header Authorization is there more than once: send one",
            Refusal::Certificate(why) => return write!(f, "the client certificate cannot be used: {why}"),
            Refusal::Malformed(why) => return write!(f, "the access token cannot be read: {why}"),
            Refusal::Unknown => "the access token is not known here: get one from an authorization server of this server",
            Refusal::Algorithm => "the access token is signed with an algorithm that is not taken from its issuer",
            Refusal::UnknownKey => "the access token is signed with a key that its issuer does not have (any more): get another one",
            Refusal::BadSignature => "the access token has a signature that does not fit it: get another one",
            Refusal::WrongIssuer => "the access token is from an issuer that this server does not trust",
            Refusal::WrongAudience => "the access token is for another server: ask for one with this server as its resource",
            Refusal::Expired => "the access token has expired: get another one",
            Refusal::NotYetValid => "the access token is not valid yet: wait, or look at the clocks of issuer and server",
            Refusal::NoExpiry => "the access token does not say when it expires (exp)",
            Refusal::NoSubject => "the access token says for nobody (sub or client_id)",
            Refusal::Inactive => "the access token is not active: get another one",
            Refusal::InsufficientScope(scopes) => {
                return write!(f, "the access token does not allow this: ask for one with the scopes {}", scopes.join(" "));
            }
            Refusal::Unavailable(why) => return write!(f, "access tokens cannot be checked now: {why}; try again later"),
        })
    }
}

impl std::error::Error for Refusal {}
