//! Finds the word that was probably meant.

/// The candidate that is fewest slips of the finger away from `word`, if any is near enough to be meant.
pub(super) fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let near_enough = 1 + word.chars().count() / 4;
    let distances = candidates.iter().map(|candidate| (slips(word, candidate), *candidate));
    distances
        .filter(|(distance, _)| *distance <= near_enough)
        .min_by_key(|(distance, _)| *distance)
        .map(|near| near.1)
}

/// How many letters must be inserted, removed, replaced or swapped with their neighbour to get from one word to the
/// other (the optimal string alignment distance). Case does not count.
fn slips(from: &str, to: &str) -> usize {
    let letters = |word: &str| -> Vec<char> { word.chars().map(|c| c.to_ascii_lowercase()).collect() };
    let (from, to) = (letters(from), letters(to));
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[&str] = &["retention", "max_retention", "run_limit", "tasks"];

    #[test]
    fn slips_of_the_finger_find_the_word() {
        for (written, meant) in
            [("retenton", "retention"), ("run-limit", "run_limit"), ("Tasks", "tasks"), ("tsaks", "tasks")]
        {
            assert_eq!(nearest(written, KEYS), Some(meant), "{written}");
        }
    }

    #[test]
    fn another_word_finds_nothing() {
        assert_eq!(nearest("colour", KEYS), None);
        assert_eq!(nearest("", KEYS), None);
    }
}
