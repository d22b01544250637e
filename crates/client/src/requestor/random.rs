//! Chance, from the operating system.

/// A number from 0 to 1. Without a source of chance it is the middle: only the spread of many clients is lost.
pub(super) fn unit() -> f64 {
    getrandom::u32().map_or(0.5, |number| f64::from(number) / f64::from(u32::MAX))
}

/// A name that nobody can guess: 128 random bits in hexadecimal.
pub(crate) fn name() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(super::endpoint::hex(&bytes))
}
