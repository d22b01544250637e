use std::time::Duration;

use minijinja::Value;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use taskgate_reach::Origin;

use crate::failure::Failure;
use crate::http::Prepared;
use crate::template::{Expression, Fault, Template};

/// Which HTTP codes count; without any, those from 200 to 299.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Codes(pub Vec<u16>);

impl Codes {
    /// Whether this code means success.
    pub fn is_ok(&self, code: u16) -> bool {
        if self.0.is_empty() { (200..300).contains(&code) } else { self.0.contains(&code) }
    }

    /// Whether this code is one of those written.
    pub fn has(&self, code: u16) -> bool {
        self.0.contains(&code)
    }
}

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// JSON.
    Json,
    /// What a browser sends from a form.
    Form,
}

/// A request whose values are filled in when it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestTemplate {
    /// Which request it is, for people: `start`, `status` and so on.
    pub name: &'static str,
    /// The method.
    pub method: Method,
    /// The whole URL.
    pub url: Template,
    /// The headers.
    pub headers: Vec<(HeaderName, Template)>,
    /// The body.
    pub body: Option<(BodyKind, Template)>,
    /// How long the answer may take.
    pub timeout: Duration,
    /// Which codes mean success.
    pub ok: Codes,
    /// Whether an answer that is no success passes, beyond what its code says.
    pub retry_if: Option<Expression>,
}

impl RequestTemplate {
    /// The request with these values.
    pub(crate) fn prepare(&self, values: &Value) -> Result<Prepared, Failure> {
        let unmade = |at: &str, why: &dyn std::fmt::Display| Failure::Unmade {
            request: self.name,
            why: format!("{at}: {why}"),
        };
        let rendered = |at: &str, template: &Template| {
            template.render(values).map_err(|fault: Fault| unmade(at, &fault))
        };
        let url = Url::parse(&rendered("url", &self.url)?).map_err(|error| unmade("url", &error))?;
        let settled = self.url.settled_origin(values);
        if settled.is_some() && settled != Origin::of(&url) {
            return Err(unmade("url", &"with these values it is at another host"));
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(unmade("url", &"it begins with neither http:// nor https://"));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let value = rendered(name.as_str(), value)?;
            let is_plain = value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte));
            let value = HeaderValue::from_str(&value).ok().filter(|_| is_plain);
            let wrong = || unmade(name.as_str(), &"a header has visible ASCII characters only");
            headers.insert(name, value.ok_or_else(wrong)?);
        }
        let mut bytes = Vec::new();
        if let Some((kind, body)) = &self.body {
            bytes = rendered("body", body)?.into_bytes();
            let usual = match kind {
                BodyKind::Json => "application/json",
                BodyKind::Form => "application/x-www-form-urlencoded",
            };
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(usual));
        }
        let Self { name, method, timeout, .. } = self.clone();
        Ok(Prepared { name, method, url, headers, body: bytes, timeout, is_written: settled.is_some() })
    }
}
