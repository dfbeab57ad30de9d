//! The catalogue's names for types. Types of crates that are switched off are replaced by private
//! ones, so that rows need no conditions.
#![allow(non_camel_case_types, reason = "rows read like the vendors' names")]

use crate::types;

pub(crate) type tf32 = types::Tf32;
pub(crate) type e5m2fnuz = types::E5M2Fnuz;
pub(crate) type e4m3fnuz = types::E4M3Fnuz;
pub(crate) type e3m2 = types::E3M2;
pub(crate) type e2m3 = types::E2M3;
pub(crate) type e2m1 = types::E2M1;
pub(crate) type ue8m0 = types::Ue8m0;
pub(crate) type ue4m3 = types::Ue4m3;

#[cfg(feature = "float8")]
pub(crate) use float8::{F8E4M3 as e4m3, F8E5M2 as e5m2};
#[cfg(feature = "half")]
pub(crate) use half::{bf16, f16};

#[cfg(not(all(feature = "half", feature = "float8")))]
macro_rules! stand_in {
    ($($name:ident = $spec:ident),*) => { $(
        #[derive(Clone, Copy, Debug)]
        pub struct $name(u16);
        impl crate::format::Format for $name {
            const SPEC: crate::format::FormatSpec = crate::format::$spec;
            fn to_bits(self) -> u64 { self.0.into() }
            fn from_bits(bits: u64) -> Self { Self(bits as u16) }
        }
    )* };
}

#[cfg(not(feature = "half"))]
mod half_stand_in {
    stand_in!(f16 = F16, bf16 = BF16);
}
#[cfg(not(feature = "half"))]
pub(crate) use half_stand_in::{bf16, f16};

#[cfg(not(feature = "float8"))]
mod float8_stand_in {
    stand_in!(e4m3 = E4M3, e5m2 = E5M2);
}
#[cfg(not(feature = "float8"))]
pub(crate) use float8_stand_in::{e4m3, e5m2};
