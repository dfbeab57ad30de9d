//! Reproducible random numbers for the tests.

/// SplitMix64.
#[allow(dead_code, reason = "not every user needs all of it")]
pub(crate) struct Rng(pub(crate) u64);

#[allow(dead_code, reason = "not every user needs all of it")]
impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to `n - 1`.
    pub(crate) fn below<N: TryFrom<u64> + TryInto<u64>>(&mut self, n: N) -> N {
        let n: u64 = n.try_into().ok().expect("a positive number");
        N::try_from(self.next() % n).ok().expect("smaller than n")
    }

    /// True once in `n` times, and for 0 never.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }

    /// Uniform from `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: i64, high: i64) -> i64 {
        low + self.below(high - low + 1)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
