//! Quantities of the fleet file. A value that exists is finite and in range.
use std::fmt;

/// Why a number is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum RangeError {
    /// NaN or an infinity.
    #[error("{0} is not a finite number")]
    NotFinite(f64),
    #[error("{0} is negative")]
    Negative(f64),
    #[error("{0} is above 1")]
    AboveOne(f64),
}

macro_rules! quantity {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(f64);

        impl $name {
            pub const fn get(self) -> f64 {
                self.0
            }
        }

        impl TryFrom<f64> for $name {
            type Error = RangeError;

            fn try_from(value: f64) -> Result<Self, RangeError> {
                at_least_zero(value).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

quantity! {
    /// Milliseconds, finite, at least 0.
    Milliseconds,
    /// Requests each second, finite, at least 0.
    Rate,
    /// Tokens of one request, finite, at least 0.
    Tokens,
    /// A pure factor, finite, at least 0.
    Factor,
}

/// A fraction, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, serde::Serialize)]
#[serde(transparent)]
pub struct Share(f64);

impl Share {
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Share {
    type Error = RangeError;

    fn try_from(value: f64) -> Result<Self, RangeError> {
        let value = at_least_zero(value)?;
        if value > 1.0 { Err(RangeError::AboveOne(value)) } else { Ok(Self(value)) }
    }
}

fn at_least_zero(value: f64) -> Result<f64, RangeError> {
    if !value.is_finite() {
        Err(RangeError::NotFinite(value))
    } else if value < 0.0 {
        Err(RangeError::Negative(value))
    } else {
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_infinite_negative_or_above_one_becomes_a_share() {
        assert!(matches!(Share::try_from(f64::NAN), Err(RangeError::NotFinite(_))));
        assert_eq!(Share::try_from(f64::INFINITY), Err(RangeError::NotFinite(f64::INFINITY)));
        assert_eq!(Share::try_from(-0.1), Err(RangeError::Negative(-0.1)));
        assert_eq!(Share::try_from(1.1), Err(RangeError::AboveOne(1.1)));
        assert_eq!(Share::try_from(1.0).unwrap().get(), 1.0);
    }
}
