//! The built-in formats and their names.

use super::{FormatSpec, Specials, checked};

macro_rules! formats {
    ($($(#[$doc:meta])* $konst:ident = $name:literal, $bits:literal bits, $signed:literal, E $e:literal, M $m:literal,
        bias $bias:literal, subnormals $sub:literal, $specials:ident, ignored $low:literal;)*) => {
        $($(#[$doc])* pub const $konst: FormatSpec = checked(FormatSpec {
            name: $name, storage_bits: $bits, signed: $signed, exponent_bits: $e, fraction_bits: $m, bias: $bias,
            subnormals: $sub, specials: Specials::$specials, ignored_low_bits: $low });)*
        /// Every built-in format.
        pub const ALL_FORMATS: &[FormatSpec] = &[$($konst),*];
    };
}

formats! {
    /// IEEE binary64.
    F64 = "f64", 64 bits, true, E 11, M 52, bias 1023, subnormals true, Ieee, ignored 0;
    /// IEEE binary32.
    F32 = "f32", 32 bits, true, E 8, M 23, bias 127, subnormals true, Ieee, ignored 0;
    /// TensorFloat-32 (AMD: xf32) in 32-bit storage; the low 13 bits are read as zero.
    TF32 = "tf32", 32 bits, true, E 8, M 10, bias 127, subnormals true, Ieee, ignored 13;
    /// IEEE binary16.
    F16 = "f16", 16 bits, true, E 5, M 10, bias 15, subnormals true, Ieee, ignored 0;
    /// bfloat16.
    BF16 = "bf16", 16 bits, true, E 8, M 7, bias 127, subnormals true, Ieee, ignored 0;
    /// OCP OFP8 E5M2.
    E5M2 = "e5m2", 8 bits, true, E 5, M 2, bias 15, subnormals true, Ieee, ignored 0;
    /// OCP OFP8 E4M3 (E4M3FN): no infinity, maximum 448.
    E4M3 = "e4m3", 8 bits, true, E 4, M 3, bias 7, subnormals true, NanAllOnes, ignored 0;
    /// E5M2 FNUZ, AMD CDNA3's bf8.
    E5M2FNUZ = "e5m2fnuz", 8 bits, true, E 5, M 2, bias 16, subnormals true, NanNegativeZero, ignored 0;
    /// E4M3 FNUZ, AMD CDNA3's fp8.
    E4M3FNUZ = "e4m3fnuz", 8 bits, true, E 4, M 3, bias 8, subnormals true, NanNegativeZero, ignored 0;
    /// OCP MX FP6 E3M2.
    E3M2 = "e3m2", 6 bits, true, E 3, M 2, bias 3, subnormals true, None, ignored 0;
    /// OCP MX FP6 E2M3.
    E2M3 = "e2m3", 6 bits, true, E 2, M 3, bias 1, subnormals true, None, ignored 0;
    /// OCP MX FP4 E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6.
    E2M1 = "e2m1", 4 bits, true, E 2, M 1, bias 1, subnormals true, None, ignored 0;
    /// OCP MX scale E8M0: 2^(x-127), no sign, no zero, NaN 0xFF.
    UE8M0 = "ue8m0", 8 bits, false, E 8, M 0, bias 127, subnormals false, NanAllOnes, ignored 0;
    /// NVFP4 scale: E4M3 without a sign; bit 7 is ignored, NaN 0x7F.
    UE4M3 = "ue4m3", 8 bits, false, E 4, M 3, bias 7, subnormals true, NanAllOnes, ignored 0;
}

/// The canonical names of the built-in formats, for messages.
pub(crate) fn known_names() -> String {
    format!("one of {}", ALL_FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", "))
}

/// The built-in format of that name, in any case. AMD's `xf32`, `fp4`, `f32`
/// spelled `fp32` and the like are understood too.
pub fn format_named(name: &str) -> Option<&'static FormatSpec> {
    let lower = name.to_ascii_lowercase();
    let canonical = match lower.as_str() {
        "xf32" => "tf32",
        "fp64" | "double" | "binary64" => "f64",
        "fp32" | "float" | "binary32" => "f32",
        "fp16" | "half" | "binary16" => "f16",
        "bfloat16" => "bf16",
        "e4m3fn" => "e4m3",
        "fp4" | "e2m1fn" => "e2m1",
        "e8m0" => "ue8m0",
        other => other,
    };
    ALL_FORMATS.iter().find(|f| f.name == canonical)
}
