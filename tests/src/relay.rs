//! The WAN between sites: pairs of TAP devices joined in user space, each frame held for a fixed one-way delay.
//!
//! One thread serves all pairs. Frames keep their virtio header, so a TCP segment of 64 KB crosses as one frame.
use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read, Write},
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    sys::{
        epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout},
        eventfd::{EfdFlags, EventFd},
        prctl,
        time::TimeSpec,
        timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
    },
    unistd,
};

use crate::HarnessError;

/// Largest frame: a TCP segment of 64 KB, its headers and the virtio header.
const FRAME_BYTES: usize = 65_536 + 256;
/// Frames and bytes under way in one direction; more are dropped, as a WAN's queue would.
const QUEUE_FRAMES: usize = 32_768;
const QUEUE_BYTES: usize = 64 << 20;
/// Frames read from one device before the others have their turn.
const BURST: usize = 64;
/// Empty buffers that are kept for later frames.
const SPARE_BUFFERS: usize = 4_096;
/// Frames due this soon leave together.
const COALESCE: Duration = Duration::from_micros(50);
/// The stop and timer descriptors; ports count from 0.
const STOP: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// What the relay did, for the harness's own checks.
#[derive(Debug, Default)]
pub struct RelayCounters {
    pub delivered_frames: AtomicU64,
    /// Frames lost because a queue was full or a device refused them.
    pub dropped_frames: AtomicU64,
}

/// A running relay. Dropping it stops the thread and removes the devices.
#[derive(Debug)]
pub(crate) struct Relay {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
    counters: Arc<RelayCounters>,
}

/// Two open TAP devices and the delay between them.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) taps: [File; 2],
    pub(crate) one_way: Duration,
}

impl Relay {
    pub(crate) fn start(pairs: Vec<Pair>) -> Result<Self, HarnessError> {
        let counters = Arc::new(RelayCounters::default());
        let stop = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)
            .map_err(HarnessError::errno("make the relay's stop event"))?;
        let stop = Arc::new(stop);
        let core = Core::new(pairs, &stop, Arc::clone(&counters))?;
        let thread = thread::Builder::new()
            .name("wan-relay".to_owned())
            .spawn(move || core.run())
            .map_err(HarnessError::io("start the relay's thread"))?;
        Ok(Self { stop, thread: Some(thread), counters })
    }

    pub(crate) fn counters(&self) -> &RelayCounters {
        &self.counters
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if self.stop.write(1).is_err() {
            return;
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("the WAN relay had panicked");
        }
    }
}

/// One direction: frames read from one device, due at the other.
#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
}

#[derive(Debug)]
struct Port {
    tap: File,
    one_way: Duration,
    /// Frames that this port has sent, on their way to its peer.
    queue: Queue,
}

/// The thread's state. Ports `2 i` and `2 i + 1` are joined.
struct Core {
    ports: Vec<Port>,
    epoll: Epoll,
    timer: TimerFd,
    spare: Vec<Vec<u8>>,
    scratch: Vec<u8>,
    counters: Arc<RelayCounters>,
}

impl Core {
    fn new(pairs: Vec<Pair>, stop: &EventFd, counters: Arc<RelayCounters>) -> Result<Self, HarnessError> {
        let made = || HarnessError::errno("set up the relay");
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(made())?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK).map_err(made())?;
        epoll.add(stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP)).map_err(made())?;
        epoll.add(timer.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, TIMER)).map_err(made())?;
        let mut ports = Vec::with_capacity(2 * pairs.len());
        for pair in pairs {
            for tap in pair.taps {
                let event = EpollEvent::new(EpollFlags::EPOLLIN, ports.len() as u64);
                epoll.add(&tap, event).map_err(made())?;
                ports.push(Port { tap, one_way: pair.one_way, queue: Queue::default() });
            }
        }
        Ok(Self { ports, epoll, timer, spare: Vec::new(), scratch: vec![0; FRAME_BYTES], counters })
    }

    fn run(mut self) {
        // Without it the kernel may add 50 us to each wait; a relay that cannot have it is only less exact.
        if let Err(errno) = prctl::set_timerslack(1) {
            eprintln!("the WAN relay keeps the default timer slack: {errno}");
        }
        let mut events = [EpollEvent::empty(); 16];
        loop {
            let ready = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(ready) => ready,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(errno) => {
                    eprintln!("the WAN relay stopped: {errno}");
                    return;
                }
            };
            for event in &events[..ready] {
                match event.data() {
                    STOP => return,
                    TIMER => {}
                    port => self.receive(usize::try_from(port).expect("ports are counted in usize")),
                }
            }
            self.deliver();
        }
    }

    /// Takes the frames that wait at a port.
    fn receive(&mut self, port: usize) {
        let port = &mut self.ports[port];
        for _ in 0..BURST {
            let length = match port.tap.read(&mut self.scratch) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Nothing more waits; a device that goes away is noticed by its users.
                Err(_) => return,
            };
            if port.queue.frames.len() >= QUEUE_FRAMES || port.queue.bytes + length > QUEUE_BYTES {
                self.counters.dropped_frames.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let mut frame = self.spare.pop().unwrap_or_default();
            frame.clear();
            frame.extend_from_slice(&self.scratch[..length]);
            port.queue.bytes += length;
            port.queue.frames.push_back((Instant::now() + port.one_way, frame));
        }
    }

    /// Sends the frames that are due and sets the timer for the next.
    fn deliver(&mut self) {
        let horizon = Instant::now() + COALESCE;
        let mut next: Option<Instant> = None;
        for from in 0..self.ports.len() {
            while let Some((due, _)) = self.ports[from].queue.frames.front() {
                if *due > horizon {
                    next = Some(next.map_or(*due, |earliest| earliest.min(*due)));
                    break;
                }
                let Some((_, frame)) = self.ports[from].queue.frames.pop_front() else { break };
                self.ports[from].queue.bytes -= frame.len();
                // The kernel takes a frame whole or not at all.
                let counter = if (&self.ports[from ^ 1].tap).write(&frame).is_ok() {
                    &self.counters.delivered_frames
                } else {
                    &self.counters.dropped_frames
                };
                counter.fetch_add(1, Ordering::Relaxed);
                if self.spare.len() < SPARE_BUFFERS {
                    self.spare.push(frame);
                }
            }
        }
        self.set_timer(next);
    }

    fn set_timer(&mut self, next: Option<Instant>) {
        // Reading clears an expiry that has been dealt with; a timer that has not expired answers EAGAIN.
        let mut expiries = [0; 8];
        match unistd::read(&self.timer, &mut expiries) {
            Ok(_) | Err(nix::errno::Errno::EAGAIN) => {}
            Err(errno) => eprintln!("the WAN relay cannot read its timer: {errno}"),
        }
        let Some(next) = next else { return };
        let wait = next.saturating_duration_since(Instant::now()).max(Duration::from_micros(1));
        let once = Expiration::OneShot(TimeSpec::from_duration(wait));
        if let Err(errno) = self.timer.set(once, TimerSetTimeFlags::empty()) {
            eprintln!("the WAN relay cannot set its timer: {errno}");
        }
    }
}
