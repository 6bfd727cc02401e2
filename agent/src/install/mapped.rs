//! A BPF array in this process's memory: reads and writes without a system call.
use std::{
    io,
    marker::PhantomData,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::NonNull,
    sync::atomic::{AtomicU16, AtomicU64, Ordering},
};

use bytemuck::Pod;

/// A `BPF_F_MMAPABLE` array with values of `T`, mapped for as long as this lives.
#[derive(Debug)]
pub(super) struct Mapped<T> {
    start: NonNull<u8>,
    bytes: usize,
    capacity: usize,
    values: PhantomData<T>,
}

// SAFETY: the mapping belongs to the process, and all access is volatile or atomic.
#[expect(unsafe_code, reason = "a raw pointer to a shared mapping")]
unsafe impl<T: Send> Send for Mapped<T> {}
// SAFETY: as above; the kernel writes the same memory in any case.
#[expect(unsafe_code, reason = "a raw pointer to a shared mapping")]
unsafe impl<T: Sync> Sync for Mapped<T> {}

#[expect(unsafe_code, reason = "memory that the kernel shares")]
impl<T: Pod> Mapped<T> {
    /// Distance of two values: the kernel rounds their size up.
    const STRIDE: usize = size_of::<T>().next_multiple_of(8);

    /// Maps `capacity` values of the array behind `map`.
    pub(super) fn new(map: BorrowedFd<'_>, capacity: usize) -> io::Result<Self> {
        let bytes = (capacity * Self::STRIDE).next_multiple_of(4096);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice, of a descriptor that is open.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, map.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Self { start, bytes, capacity, values: PhantomData })
    }

    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    fn place(&self, index: usize) -> NonNull<T> {
        assert!(index < self.capacity, "index {index} of an array of {}", self.capacity);
        // SAFETY: the mapping holds `capacity` values and the index is below that.
        unsafe { self.start.add(index * Self::STRIDE) }.cast()
    }

    pub(super) fn get(&self, index: usize) -> T {
        // SAFETY: `place` gives an aligned value of the mapping; any bits are a `T`.
        unsafe { self.place(index).read_volatile() }
    }

    /// Writes a value, word by word: readers in the kernel may see a part of it for a moment.
    pub(super) fn set(&self, index: usize, value: T) {
        // SAFETY: `place` gives an aligned value of the mapping.
        unsafe { self.place(index).write_volatile(value) };
    }

    /// The aligned word at `offset` bytes of a value, which readers see whole.
    pub(super) fn word(&self, index: usize, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= size_of::<T>(), "no whole word at {offset}");
        // SAFETY: the word lies within the value that `place` gives.
        let word = unsafe { self.place(index).cast::<u8>().add(offset) };
        // SAFETY: it is aligned, and lives as long as the mapping.
        unsafe { AtomicU64::from_ptr(word.cast().as_ptr()) }
    }

    /// Writes the aligned u16 at `offset` bytes of a value after all writes before it.
    pub(super) fn publish_half_word(&self, index: usize, offset: usize, half_word: u16) {
        assert!(offset.is_multiple_of(2) && offset + 2 <= size_of::<T>(), "no whole u16 at {offset}");
        // SAFETY: the u16 lies within the value that `place` gives.
        let place = unsafe { self.place(index).cast::<u8>().add(offset) };
        // SAFETY: it is aligned, and lives as long as the mapping.
        let place = unsafe { AtomicU16::from_ptr(place.cast().as_ptr()) };
        place.store(half_word, Ordering::Release);
    }

    /// Writes the word at `offset` after all writes before it.
    pub(super) fn publish(&self, index: usize, offset: usize, word: u64) {
        self.word(index, offset).store(word, Ordering::Release);
    }
}

#[expect(unsafe_code, reason = "memory that the kernel shares")]
impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and no reference to it outlives this.
        let status = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert_eq!(status, 0);
    }
}
