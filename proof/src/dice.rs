//! Numbers that look random and are the same each time.

/// A sequence that its seed decides (splitmix64): a failure of a random test can be had again.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The sequence of this seed. Neighbouring seeds have nothing in common.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// The next number, smaller than `below`.
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ (number >> 31)) % below
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.roll(among.len() as u64) as usize]
    }
}
