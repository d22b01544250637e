/// A name that nobody can guess and nothing else ever had: 128 random bits, as 32 hexadecimal digits.
pub fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
