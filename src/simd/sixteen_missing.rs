//! In place of `sixteen.rs` where no processor has AVX2.

use super::Isa;
use super::decode::Decoder;
use super::values::NR;
use crate::view::Rows;

/// There is none.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sixteen {}

impl Sixteen {
    pub(super) const fn new(_: Isa, _: &Decoder) -> Option<Self> {
        None
    }

    pub(super) fn read<T>(
        &self,
        _: &Rows<'_, T>,
        _: [usize; 2],
        _: &[usize],
        _: (&mut [[f32; NR]], &mut [[i16; NR]]),
    ) -> Option<u8> {
        match *self {}
    }
}
