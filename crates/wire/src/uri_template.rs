//! Whether a URI can come from a URI template (RFC 6570), as far as routing needs to know.

/// How many characters of the URI are the template's own words, if the URI can have been made from it.
///
/// An expression stands for anything: which characters an operator and its variables really produce does not decide
/// who is asked, and asking one server too many harms nothing. The more a template says itself, the better it fits.
pub fn fit(template: &str, uri: &str) -> Option<usize> {
    let mut words = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let close = open + rest[open..].find('}')?;
        words.push(&rest[..open]);
        rest = &rest[close + 1..];
    }
    if words.is_empty() {
        return (template == uri).then_some(uri.len());
    }
    let (first, last) = (words[0], rest);
    let mut left = uri.strip_prefix(first)?.strip_suffix(last)?;
    for word in &words[1..] {
        left = &left[left.find(word)? + word.len()..];
    }
    Some(words.iter().map(|word| word.len()).sum::<usize>() + last.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_fits_what_has_its_words_in_order() {
        for (template, uri, fits) in [
            ("file:///{path}", "file:///a/b", Some(8)),
            ("file:///{path}", "file:/a", None),
            ("file:///{path}", "file:///", Some(8)),
            ("x://{a}/mid/{b}.txt", "x://1/mid/2.txt", Some(13)),
            ("x://{a}/mid/{b}.txt", "x://1/mid/2.md", None),
            ("x://{a}/mid/{b}.txt", "x://1/2.txt", None),
            ("x://same", "x://same", Some(8)),
            ("x://same", "x://other", None),
            ("{+all}", "anything", Some(0)),
            ("x://{broken", "x://1", None),
            ("ab{x}ba", "aba", None),
            ("ü://{x}é", "ü://1é", Some(7)),
        ] {
            assert_eq!(fit(template, uri), fits, "{template} {uri}");
        }
    }
}
