//! Headers: those that must agree with a body, those that say who is calling and from where, and those that say what is wanted of a
//! caller. Each input says by how it was made what must come of it.

use std::net::IpAddr;
use std::sync::LazyLock;

use arbitrary::{Result, Unstructured};
use axum::http::{HeaderValue, uri::Authority};
use serde_json::json;
use taskgate_gateway::access::{Access, AccessConfig, Resource, Rights, StaticToken, TokenHash};
use taskgate_wire::header;

use crate::pieces::{now_or_never, text};
use crate::served::{modern, run, send};

/// Where everybody is let in who has one of these tokens.
static ACCESS: LazyLock<Access> = LazyLock::new(|| {
    let tokens = ["sesame-of-ann", "sesame-of-bob"].map(|token| StaticToken {
        name: token.to_owned(),
        hash: TokenHash::of(token),
        scopes: Vec::new(),
    });
    let resource = Resource::parse("https://gate.example/mcp").unwrap();
    let rights = Rights::default();
    Access::new(AccessConfig {
        resource,
        issuers: Vec::new(),
        tokens: tokens.into(),
        certificates: None,
        proxy: None,
        rights,
        reach: Default::default(),
    })
    .unwrap()
});

pub fn check(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let input = &mut Unstructured::new(rest);
    // Too few bytes are no case.
    let _ = match kind % 5 {
        0 => values(input),
        1 => mirrored(input),
        2 => places(input),
        3 => bearer(input),
        _ => challenges(input),
    };
}

/// A text becomes a value that a header can have, and is read as what it was.
fn values(input: &mut Unstructured<'_>) -> Result<()> {
    let text = text(input)?;
    let value = header::encode(&text);
    HeaderValue::from_str(&value).unwrap();
    assert_eq!(header::decode(&value).unwrap(), text);
    let other = crate::pieces::text(input)?;
    if let Ok(read) = header::decode(&other) {
        // Only what wears the marks is another text than itself.
        assert!(read == other || other.starts_with("=?base64?"));
    }
    Ok(())
}

/// How a header is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, arbitrary::Arbitrary)]
enum Way {
    Right,
    Padded,
    Twice,
    Missing,
    Wrong,
    RightAndWrong,
}

/// A call is made if and only if its headers say what its body says.
fn mirrored(input: &mut Unstructured<'_>) -> Result<()> {
    let place = text(input)?;
    let count = input.arbitrary::<i32>()?;
    let (mut headers, body) = modern(
        "ann",
        "tools/call",
        json!({ "name": "mirrored", "arguments": { "where": place, "count": count } }),
    );
    let wanted = [
        ("mcp-protocol-version", "2026-07-28".to_owned()),
        ("mcp-method", "tools/call".to_owned()),
        ("mcp-name", "mirrored".to_owned()),
        ("mcp-param-where", place),
        ("mcp-param-count", count.to_string()),
    ];
    headers.retain(|(name, _)| name == "authorization");
    let mut agrees = true;
    for (name, right) in &wanted {
        let way = if input.ratio(1_u8, 4_u8)? { input.arbitrary()? } else { Way::Right };
        // Only names and arguments may be in base64.
        let write = |text: &str| match *name {
            "mcp-protocol-version" | "mcp-method" => text.to_owned(),
            _ => header::encode(text).into_owned(),
        };
        let wrong = format!("{}{}", write(right).replace('=', ""), input.choose(&["0", "x", " 1", "-"])?);
        let right = write(right);
        let sent = match way {
            Way::Right => vec![right],
            Way::Padded => vec![format!(" \t{right} ")],
            Way::Twice => vec![right.clone(), right],
            Way::Missing => vec![],
            Way::Wrong => vec![wrong.clone()],
            Way::RightAndWrong => vec![right, wrong.clone()],
        };
        // "42.0 and 42 are considered equal", and so are 0 and 00.
        let is_equal = *name == "mcp-param-count" && wrong.parse() == Ok(i64::from(count));
        agrees &= matches!(way, Way::Right | Way::Padded | Way::Twice) || is_equal && way != Way::Missing;
        headers.extend(sent.into_iter().map(|value| ((*name).to_owned(), value.into_bytes())));
    }
    run(async |gateway, _| {
        let answer = send(&gateway, "POST", &headers, body.to_string().into_bytes()).await;
        let error = answer.messages().last().and_then(|message| message["error"]["code"].as_i64());
        if agrees {
            assert_eq!((answer.status, error), (200, None), "{headers:?} {answer:?}");
        } else {
            let is_refused = answer.status == 400 && matches!(error, Some(-32020 | -32022));
            assert!(is_refused, "{headers:?} {answer:?}");
        }
    });
    Ok(())
}

/// Only who addresses this machine, and comes from a page of this machine, gets further than the door.
fn places(input: &mut Unstructured<'_>) -> Result<()> {
    let near = ["localhost", "127.0.0.1", "[::1]", "LOCALHOST", "localhost.", "0.0.0.0", "evil.example"];
    let make = |input: &mut Unstructured<'_>| {
        let mut name = (*input.choose(&near)?).to_owned();
        match input.int_in_range(0..=4_u8)? {
            0 => name.push_str(":8000"),
            1 => name.push_str(&text(input)?),
            2 => name.insert_str(0, &text(input)?),
            3 => {
                name = format!(
                    "{name}{}evil.example",
                    *input.choose(&["@", ".", ":80@", "/", "#", "\\", ",", " "])?
                )
            }
            _ => {}
        }
        Ok::<_, arbitrary::Error>(name)
    };
    let host = make(input)?;
    let scheme = *input.choose(&["http://", "https://", "", "null", "file://", "HTTP://"])?;
    let origin = input.arbitrary::<bool>()?.then(|| Ok(format!("{scheme}{}", make(input)?))).transpose()?;
    let (mut headers, body) = modern("ann", "tools/list", json!({}));
    headers.push(("host".to_owned(), host.clone().into_bytes()));
    headers.extend(origin.clone().map(|origin| ("origin".to_owned(), origin.into_bytes())));
    run(async |gateway, _| {
        let answer = send(&gateway, "POST", &headers, body.to_string().into_bytes()).await;
        if answer.status != 403 {
            assert_eq!(answer.status, 200);
            assert!(HeaderValue::from_str(&host).is_err() || is_here(&host), "{host} was let in");
            if let Some(origin) = origin.filter(|origin| HeaderValue::from_bytes(origin.as_bytes()).is_ok()) {
                let place = origin.split_once("://").map(|(_, place)| place);
                assert!(place.is_some_and(is_here), "{origin} was let in");
            }
        }
    });
    Ok(())
}

fn is_here(authority: &str) -> bool {
    authority.parse::<Authority>().is_ok_and(|authority| {
        let name = authority.host().trim_matches(['[', ']']);
        !authority.as_str().contains('@')
            && (name.eq_ignore_ascii_case("localhost")
                || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()))
    })
}

/// Only a token that is known lets anybody in, and only as the one whose token it is. No refusal repeats what was shown.
fn bearer(input: &mut Unstructured<'_>) -> Result<()> {
    let known = ["sesame-of-ann", "sesame-of-bob"];
    let scheme = *input.choose(&["Bearer", "bearer", "BEARER", "Basic", "Bearer,", ""])?;
    let blank = *input.choose(&[" ", "  ", "\t", "", "\u{a0}"])?;
    let mut token = match input.int_in_range(0..=2_u8)? {
        0 => (*input.choose(&known)?).to_owned(),
        1 => {
            let part = |input: &mut Unstructured<'_>| text(input).map(|text| base64(text.as_bytes()));
            format!("{}.{}.{}", part(input)?, base64(br#"{"iss":"https://issuer.example"}"#), part(input)?)
        }
        _ => String::from_utf8_lossy(input.bytes(input.len().min(40))?).into_owned(),
    };
    if input.ratio(1_u8, 4_u8)? {
        token.insert(token.floor_char_boundary(input.int_in_range(0..=token.len())?), input.arbitrary()?);
    }
    let shown = format!("{scheme}{blank}{token}");
    let is_bearer = scheme.eq_ignore_ascii_case("bearer") && matches!(blank, " " | "  " | "\t");
    let plain = token.trim_matches([' ', '\t']);
    match now_or_never(ACCESS.check(Some(shown.as_bytes()))) {
        Ok(identity) => {
            assert!(is_bearer && known.contains(&plain), "{shown:?} was let in");
            assert_eq!(identity.owner, format!("token {plain}"));
        }
        Err(refusal) => {
            assert!(!is_bearer || !known.contains(&plain), "{shown:?} was not let in");
            let challenge = ACCESS.challenge(&refusal);
            HeaderValue::from_str(&challenge).unwrap();
            assert!(token.len() < 12 || !challenge.contains(&token), "{challenge}");
            assert!(matches!(refusal.status(), 400 | 401));
        }
    }
    Ok(())
}

/// Base64 for URLs, without padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digits = bytes.chunks(3).flat_map(|chunk| {
        let bits =
            chunk.iter().chain(&[0; 2]).take(3).fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        (0..=chunk.len()).map(move |place| char::from(DIGITS[bits >> (18 - 6 * place) & 63]))
    });
    digits.collect()
}

/// The first challenge for a bearer says where to look and what to ask for, whatever stands around it.
fn challenges(input: &mut Unstructured<'_>) -> Result<()> {
    let quote = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let plain = |text: String| text.chars().filter(|c| (' '..='~').contains(c)).collect::<String>();
    let (place, scope, realm) = (plain(text(input)?), plain(text(input)?), plain(text(input)?));
    let before = *input.choose(&[
        "",
        "Basic realm=\"x, Bearer scope=\\\"no\\\"\", ",
        "Negotiate YWJj==, ",
        "DPoP scope=\"no\", ",
    ])?;
    let after =
        *input.choose(&["", ", Basic scope=\"no\"", ", error=\"invalid_token\"", ", scope=\"later\""])?;
    let equals = *input.choose(&["=", " = ", "= "])?;
    let header = format!(
        "{before}Bearer realm={}, resource_metadata{equals}{}, Scope{equals}{}{after}",
        quote(&realm),
        quote(&place),
        quote(&scope)
    );
    let said = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let scope = said(&scope).or(after.contains("later").then(|| "later".to_owned()));
    assert_eq!(taskgate_client::fuzzing::challenged(&[header.as_bytes()]), (said(&place), scope), "{header}");
    // Of anything else, nothing is made up.
    let any = input.bytes(input.len())?;
    let (place, scope) = taskgate_client::fuzzing::challenged(&[any]);
    for said in place.iter().chain(&scope) {
        assert!(said.len() <= any.len() && any.len() >= "bearer scope=x".len());
    }
    Ok(())
}
