//! Methods of instruction sets: types whose values are the proof that the instructions are there.

/// Operations of one instruction each, or few.
macro_rules! operations {
    ($($name:ident($($x:ident: $ty:ty),*) -> $to:ty $body:block)*) => { $(
        #[inline(always)]
        fn $name(self, $($x: $ty),*) -> $to {
            // SAFETY: `self` is the proof that the instructions are there.
            unsafe { $body }
        }
    )* };
}

/// Loads and stores, which are unsafe for their pointers.
macro_rules! memory {
    ($($name:ident($($x:ident: $ty:ty),*) -> $to:ty $body:block)*) => { $(
        #[inline(always)]
        unsafe fn $name(self, $($x: $ty),*) -> $to {
            // SAFETY: the caller's promise; `self` is the proof that the instructions are there.
            unsafe { $body }
        }
    )* };
}

/// `apart`, which does work in a function of its own that is compiled for a set, if the work and all it calls is
/// inlined.
macro_rules! apart {
    ($features:literal) => {
        #[inline(always)]
        fn apart<R>(self, work: impl FnOnce() -> R) -> R {
            #[inline(never)]
            #[target_feature(enable = $features)]
            fn compiled<R>(work: impl FnOnce() -> R) -> R {
                work()
            }
            // SAFETY: `self` is the proof.
            unsafe { compiled(work) }
        }
    };
}

/// What a function makes of 0 to N - 1, for work that must be inlined.
///
/// `core::array::from_fn` goes through functions of its own. Where the compiler leaves one of these by itself it has no
/// set's features, and each operation in it becomes a call: fifty times as slow.
#[inline(always)]
pub(super) fn array_of<T: Copy, const N: usize>(f: impl Fn(usize) -> T) -> [T; N] {
    const { assert!(N > 0) };
    let mut all = [f(0); N];
    let mut i = 1;
    while i < N {
        all[i] = f(i);
        i += 1;
    }
    all
}

pub(super) use {apart, memory, operations};
