//! Requests that are signed, as Amazon Web Services want them (Signature Version 4).

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use reqwest::header::HeaderName;
use taskgate_credentials::{Secret, secret_header};

use crate::clock;
use crate::failure::Failure;
use crate::http::Prepared;

/// Who signs, and for whom.
#[derive(Debug, Clone, PartialEq)]
pub struct Aws {
    /// The region, such as `us-east-1`.
    pub region: String,
    /// The service's name in signatures, such as `states`.
    pub service: String,
    /// The key's id and the key. Without them those of the usual variables.
    pub keys: Option<(Secret, Secret)>,
    /// The token of a session, if the keys are of one. With the usual variables it is the usual one, too.
    pub session_token: Option<Secret>,
}

impl Aws {
    fn credentials(&self) -> Result<Credentials, String> {
        let env = |name: &str| Secret::Env(name.to_owned());
        let (id, key, token) = match &self.keys {
            Some((id, key)) => (id.clone(), key.clone(), self.session_token.clone()),
            None => {
                let token = env("AWS_SESSION_TOKEN");
                // Lasting keys have none.
                let token = self.session_token.clone().or(token.read().is_ok().then_some(token));
                (env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY"), token)
            }
        };
        let token = token.map(|token| token.read()).transpose()?;
        Ok(Credentials::new(id.read()?, key.read()?, token, None, "taskgate"))
    }

    /// Adds the signature.
    pub(super) fn sign(&self, prepared: &mut Prepared) -> Result<(), Failure> {
        let request = prepared.name;
        let unmade = |why: String| Failure::Unmade { request, why: format!("it cannot be signed: {why}") };
        let identity = self.credentials().map_err(unmade)?.into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(&self.service)
            .time(clock::now())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| unmade(error.to_string()))?;
        let headers =
            prepared.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let signable = SignableRequest::new(
            prepared.method.as_str(),
            prepared.url.as_str(),
            headers,
            SignableBody::Bytes(&prepared.body),
        );
        let signed = signable.and_then(|signable| sign(signable, &params.into()));
        let (instructions, _) = signed.map_err(|error| unmade(error.to_string()))?.into_parts();
        for (name, value) in instructions.headers() {
            let broken = || unmade(format!("the header {name} cannot be sent"));
            let value = secret_header(value).map_err(|_| broken())?;
            prepared.headers.insert(name.parse::<HeaderName>().map_err(|_| broken())?, value);
        }
        Ok(())
    }
}
