//! Words of maps that user space or other CPUs write at any time.

/// One aligned u64, read and written whole and without order, as hardware does for such words.
///
/// BPF's instruction set before its fourth version has no atomic load, and needs none: a plain one is not torn.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct SharedWord {
    #[cfg(target_arch = "bpf")]
    cell: core::cell::UnsafeCell<u64>,
    #[cfg(not(target_arch = "bpf"))]
    cell: core::sync::atomic::AtomicU64,
}

/// The two words of a slot's record.
#[repr(C, align(16))]
#[derive(Debug, Default)]
pub struct SlotWords {
    pub slot: SharedWord,
    pub diverged: SharedWord,
}

// SAFETY: every access is a single load or store of an aligned word.
#[cfg(target_arch = "bpf")]
#[expect(unsafe_code, reason = "a map's words are shared between CPUs")]
unsafe impl Sync for SharedWord {}

#[cfg(target_arch = "bpf")]
#[expect(unsafe_code, reason = "volatile, since other CPUs write")]
impl SharedWord {
    #[inline(always)]
    pub fn load(&self) -> u64 {
        // SAFETY: the pointer comes from a reference, so it is aligned and in bounds.
        unsafe { self.cell.get().read_volatile() }
    }

    #[inline(always)]
    pub fn store(&self, word: u64) {
        // SAFETY: the pointer comes from a reference, so it is aligned and in bounds.
        unsafe { self.cell.get().write_volatile(word) }
    }
}

#[cfg(not(target_arch = "bpf"))]
impl SharedWord {
    pub const fn new(word: u64) -> Self {
        Self { cell: core::sync::atomic::AtomicU64::new(word) }
    }

    pub fn load(&self) -> u64 {
        self.cell.load(core::sync::atomic::Ordering::Relaxed)
    }

    pub fn store(&self, word: u64) {
        self.cell.store(word, core::sync::atomic::Ordering::Relaxed);
    }
}
