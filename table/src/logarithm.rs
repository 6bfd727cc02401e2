//! A natural logarithm that is the same on every machine.

/// Fraction bits of logarithms and affinities.
pub(crate) const FRACTION_BITS: u32 = 44;

const WORK_BITS: u32 = 60;
const ONE: i64 = 1 << WORK_BITS;
/// ln 2 in units of 2^-60.
const LN_2: i64 = 0x0b17_217f_7d1c_f79b;
/// The square root of 2 in units of 2^-60: mantissas above it are halved, so that the series sees the least range.
const SQRT_2: i64 = 0x16a0_9e66_7f3b_cc90;

/// ln(`value`) in units of 2^-44, for a `value` of at least 1; within 2^-43 for values below 2^60.
///
/// ln m = 2 artanh((m - 1) / (m + 1)) with m in [sqrt(1/2), sqrt 2], so that the argument is below 0.172 and twelve
/// terms of the series leave less than 2^-60.
#[expect(
    clippy::cast_possible_truncation,
    reason = "quotients and products stay below 2^61 by the ranges above"
)]
#[expect(clippy::cast_sign_loss, reason = "the bit length of a positive value is positive")]
pub(crate) const fn ln(value: u64) -> i64 {
    assert!(value > 0, "the logarithm of 0 is not defined");
    let mut exponent = value.ilog2() as i64;
    let shift = WORK_BITS as i64 - exponent;
    let mut mantissa = if shift >= 0 { value << shift as u32 } else { value >> -shift as u32 } as i64;
    if mantissa > SQRT_2 {
        mantissa >>= 1;
        exponent += 1;
    }
    let ratio = (((mantissa - ONE) as i128) << WORK_BITS) / (mantissa + ONE) as i128;
    let square = (ratio * ratio) >> WORK_BITS;
    let mut series = 0_i128;
    let mut term = 23;
    while term >= 1 {
        series = ((series * square) >> WORK_BITS) + ONE as i128 / term;
        term -= 2;
    }
    let fraction = (2 * ratio * series) >> WORK_BITS;
    ((fraction + exponent as i128 * LN_2 as i128) >> (WORK_BITS - FRACTION_BITS)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_agree_with_those_of_the_platform() {
        let unit = 2_f64.powi(44);
        let values =
            (1..5000).chain((12..60).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1_u64 << bit) + 12_345]));

        for value in values {
            #[expect(clippy::cast_precision_loss, reason = "the comparison allows for it")]
            let (found, wanted) = (ln(value) as f64 / unit, (value as f64).ln());
            assert!((found - wanted).abs() < 2e-13, "ln {value}: {found} against {wanted}");
        }
    }

    #[test]
    fn the_logarithm_of_one_is_zero_and_of_two_is_the_constant() {
        assert_eq!(ln(1), 0);
        assert_eq!(ln(2), LN_2 >> 16);
        assert_eq!(i128::from(ln(1 << 63)), (63 * i128::from(LN_2)) >> 16);
    }
}
