//! Bounds-checked access to a packet. The only file in which stages touch memory.
//!
//! A [`Window`] is the proof that a number of bytes is held; loads and stores check their offset against that number
//! at compile time. The kernel's verifier checks the same again.
use core::marker::PhantomData;

/// The bytes of one packet.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    start: usize,
    end: usize,
    bytes: PhantomData<&'a mut [u8]>,
}

/// A run of `N` bytes of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a, const N: usize> {
    start: usize,
    bytes: PhantomData<&'a mut [u8]>,
}

/// Integers as they stand in a packet, in the order of the wire.
pub trait Word: Copy + private::Sealed {}

impl Word for u8 {}
impl Word for u16 {}
impl Word for u32 {}
impl Word for u64 {}

mod private {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

impl<'a> Frame<'a> {
    /// # Safety
    ///
    /// `start` and `end` bound memory that stays readable and writable, by nobody else, for `'a`.
    #[expect(unsafe_code, reason = "the kernel gives a packet as two addresses")]
    #[inline(always)]
    pub const unsafe fn from_addresses(start: usize, end: usize) -> Self {
        Self { start, end, bytes: PhantomData }
    }

    #[cfg(not(target_arch = "bpf"))]
    #[expect(unsafe_code, reason = "a slice is a bounded, exclusive piece of memory")]
    pub fn from_slice(slice: &'a mut [u8]) -> Self {
        let range = slice.as_mut_ptr_range();
        let (start, end) = (range.start.expose_provenance(), range.end.expose_provenance());
        // SAFETY: the exclusive borrow of the slice lasts for 'a.
        unsafe { Self::from_addresses(start, end) }
    }

    #[inline(always)]
    #[must_use]
    pub const fn length(&self) -> usize {
        self.end - self.start
    }

    /// `N` bytes from `offset` on, if the packet holds them.
    #[inline(always)]
    #[must_use]
    pub const fn window<const N: usize>(&self, offset: usize) -> Option<Window<'a, N>> {
        if self.start + offset + N > self.end {
            return None;
        }
        Some(Window { start: self.start + offset, bytes: PhantomData })
    }
}

impl<const N: usize> Window<'_, N> {
    /// The word at `OFFSET`, in wire order.
    #[inline(always)]
    #[must_use]
    #[expect(unsafe_code, reason = "the one load of packet bytes")]
    pub fn load<T: Word, const OFFSET: usize>(&self) -> T {
        const { assert!(OFFSET + size_of::<T>() <= N) };
        let from = core::ptr::with_exposed_provenance::<T>(self.start + OFFSET);
        // SAFETY: the window holds N bytes and the load ends within them. BPF loads need no alignment on the targets
        // that the kernel's verifier accepts this for, and `read_unaligned` would compile to single bytes there.
        #[cfg(target_arch = "bpf")]
        return unsafe { core::ptr::read_volatile(from) };
        // SAFETY: the window holds N bytes and the load ends within them; every bit pattern is an integer.
        #[cfg(not(target_arch = "bpf"))]
        return unsafe { core::ptr::read_unaligned(from) };
    }

    /// Writes the word at `OFFSET`, given in wire order.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the one store to packet bytes")]
    pub fn store<T: Word, const OFFSET: usize>(&self, word: T) {
        const { assert!(OFFSET + size_of::<T>() <= N) };
        let to = core::ptr::with_exposed_provenance_mut::<T>(self.start + OFFSET);
        // SAFETY: as for `load`, and the frame is exclusive to this program.
        #[cfg(target_arch = "bpf")]
        return unsafe { core::ptr::write_volatile(to, word) };
        // SAFETY: as for `load`, and the frame is exclusive to its borrow.
        #[cfg(not(target_arch = "bpf"))]
        return unsafe { core::ptr::write_unaligned(to, word) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_given_up_to_the_last_byte_and_not_beyond() {
        let mut bytes = [0; 20];
        let frame = Frame::from_slice(&mut bytes);

        assert!(frame.window::<6>(14).is_some());
        assert!(frame.window::<7>(14).is_none());
    }

    #[test]
    fn a_word_is_stored_and_loaded_at_an_odd_offset_in_wire_order() {
        let mut bytes = [0; 8];
        let window = Frame::from_slice(&mut bytes).window::<8>(0).unwrap();

        window.store::<u32, 3>(u32::from_ne_bytes([1, 2, 3, 4]));

        assert_eq!(window.load::<u16, 4>().to_ne_bytes(), [2, 3]);
        assert_eq!(bytes, [0, 0, 0, 1, 2, 3, 4, 0]);
    }
}
