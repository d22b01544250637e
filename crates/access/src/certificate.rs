//! Callers who show a certificate instead of a token. Whether its authority is trusted, and its key the caller's, has been seen to
//! before anything here is asked: in the TLS handshake.

use std::time::Duration;

use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::clock::now;
use crate::identity::Identity;
use crate::refusal::Refusal;

/// How certificates say who is calling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// Which of a certificate's names is the caller's.
    pub subject: SubjectKind,
    /// What those who show one may do.
    pub scopes: Vec<String>,
}

/// A kind of name in a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SubjectKind {
    /// The distinguished name, as RFC 4514 writes it.
    #[default]
    Dn,
    /// The URI among the alternative names: what SPIFFE has.
    Uri,
    /// The DNS name among them.
    Dns,
    /// The e-mail address among them.
    Email,
}

/// The longest name of a caller, in bytes.
const LONGEST: usize = 1024;

/// What a certificate says, read once for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certified {
    name: String,
    /// When it ends, counted from 1970.
    until: Duration,
}

impl SubjectKind {
    /// All, in the order in which they are explained.
    pub const ALL: [SubjectKind; 4] =
        [SubjectKind::Dn, SubjectKind::Uri, SubjectKind::Dns, SubjectKind::Email];

    /// Its word in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            SubjectKind::Dn => "dn",
            SubjectKind::Uri => "uri",
            SubjectKind::Dns => "dns",
            SubjectKind::Email => "email",
        }
    }
}

impl Certificates {
    /// Reads a certificate (DER) that the handshake has found good.
    ///
    /// # Errors
    ///
    /// [`Refusal::Certificate`] if it does not have exactly one name of the kind.
    pub fn read(&self, der: &[u8]) -> Result<Certified, Refusal> {
        let unreadable = |_| Refusal::Certificate("it cannot be read");
        let certificate = Certificate::from_der(der).map_err(unreadable)?.tbs_certificate;
        let until = certificate.validity.not_after.to_unix_duration();
        if self.subject == SubjectKind::Dn {
            return Certified::new(certificate.subject.to_string(), until);
        }
        let others = certificate.get::<SubjectAltName>().map_err(unreadable)?;
        let mut names =
            others.iter().flat_map(|(_, SubjectAltName(names))| names).filter_map(|name| {
                match (self.subject, name) {
                    (SubjectKind::Uri, GeneralName::UniformResourceIdentifier(name)) => Some(name.as_str()),
                    (SubjectKind::Dns, GeneralName::DnsName(name)) => Some(name.as_str()),
                    (SubjectKind::Email, GeneralName::Rfc822Name(name)) => Some(name.as_str()),
                    _ => None,
                }
            });
        let name =
            names.next().ok_or(Refusal::Certificate("it has no name of the kind that is asked for"))?;
        // Whichever is taken, others might take the other one.
        match names.next() {
            Some(_) => Err(Refusal::Certificate("it has several names of the kind that is asked for")),
            None => Certified::new(name.to_owned(), until),
        }
    }

    /// Whoever has shown this certificate.
    ///
    /// # Errors
    ///
    /// [`Refusal::Certificate`] if its time is over: a connection may last longer.
    pub fn identify(&self, certified: &Certified) -> Result<Identity, Refusal> {
        if now() >= certified.until.as_secs_f64() {
            return Err(Refusal::Certificate("its time is over: connect anew with another one"));
        }
        Ok(Identity::certified(&certified.name, certified.until, &self.scopes))
    }
}

impl Certified {
    fn new(name: String, until: Duration) -> Result<Certified, Refusal> {
        if name.is_empty() || name.len() > LONGEST || name.chars().any(char::is_control) {
            return Err(Refusal::Certificate("its name is empty, too long or no plain text"));
        }
        Ok(Certified { name, until })
    }
}
