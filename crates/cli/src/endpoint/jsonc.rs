//! JSON with comments and commas before a closing bracket, as editors keep their configuration in.

/// The same as plain JSON. What is no comment and no such comma stays as it is, so a fault is found at its place by whoever reads it.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut in_string = false;
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('"', _) => {
                in_string = !in_string;
                plain.push(c);
            }
            ('\\', Some(_)) if in_string => {
                plain.push(c);
                plain.extend(rest.next());
            }
            ('/', Some('/')) if !in_string => {
                while rest.peek().is_some_and(|c| *c != '\n') {
                    rest.next();
                }
            }
            ('/', Some('*')) if !in_string => {
                rest.next();
                let mut before = ' ';
                for c in rest.by_ref() {
                    if c == '\n' {
                        plain.push(c);
                    }
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
            }
            ('}' | ']', _) if !in_string => {
                if plain.trim_end().ends_with(',') {
                    let comma = plain.trim_end().len() - 1;
                    plain.replace_range(comma..=comma, " ");
                }
                plain.push(c);
            }
            _ => plain.push(c),
        }
    }
    plain
}
