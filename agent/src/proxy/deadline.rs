//! Deadlines of many connections, on one coarse clock: setting one is a store, not a timer.
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Waker},
    time::Duration,
};

/// Time between two looks at the deadlines, and so their resolution.
pub(crate) const TICK: Duration = Duration::from_millis(100);

const NEVER: u64 = u64::MAX;

/// All deadlines of a worker, and its coarse time.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    now: Cell<u64>,
    list: RefCell<Vec<Rc<Deadline>>>,
}

/// One connection's deadline. Lives until its owner drops it.
#[derive(Debug)]
pub(crate) struct Deadline {
    at: Cell<u64>,
    passed: Cell<bool>,
    /// Nothing is under way: shutdown may end the connection.
    idle: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Deadlines {
    pub(crate) fn register(&self) -> Rc<Deadline> {
        let deadline = Rc::new(Deadline {
            at: Cell::new(NEVER),
            passed: Cell::new(false),
            idle: Cell::new(false),
            waker: RefCell::default(),
        });
        self.list.borrow_mut().push(Rc::clone(&deadline));
        deadline
    }

    /// Milliseconds since the worker started, as of the last tick.
    pub(crate) fn now(&self) -> u64 {
        self.now.get()
    }

    pub(crate) fn set(&self, deadline: &Deadline, after: Duration) {
        let after = u64::try_from(after.as_millis()).unwrap_or(NEVER);
        deadline.at.set(self.now.get().saturating_add(after));
        deadline.passed.set(false);
    }

    /// Moves the time on: wakes those whose deadline has passed, forgets those whose owner is gone.
    pub(crate) fn tick(&self, now: u64) {
        self.now.set(now);
        self.list.borrow_mut().retain(|deadline| {
            if deadline.at.get() < now && !deadline.passed.get() {
                deadline.pass();
            }
            Rc::strong_count(deadline) > 1
        });
    }

    /// Ends all connections with nothing under way.
    pub(crate) fn pass_idle(&self) {
        self.list.borrow().iter().filter(|deadline| deadline.idle.get()).for_each(|deadline| deadline.pass());
    }
}

impl Deadline {
    pub(crate) fn clear(&self) {
        self.at.set(NEVER);
        self.passed.set(false);
    }

    pub(crate) fn set_idle(&self, idle: bool) {
        self.idle.set(idle);
    }

    /// Whether it has passed; otherwise the task is woken when it does.
    pub(crate) fn has_passed(&self, cx: &Context<'_>) -> bool {
        if self.passed.get() {
            return true;
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        false
    }

    fn pass(&self) {
        self.passed.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn passed(deadline: &Deadline) -> bool {
        deadline.has_passed(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_deadline_passes_after_its_time_and_a_later_one_replaces_it() {
        let deadlines = Deadlines::default();
        let deadline = deadlines.register();
        deadlines.set(&deadline, SECOND);

        deadlines.tick(1000);
        assert!(!passed(&deadline));
        deadlines.tick(1001);
        assert!(passed(&deadline));
        deadlines.set(&deadline, SECOND);
        deadlines.tick(2001);
        assert!(!passed(&deadline));
        deadline.clear();
        deadlines.tick(9000);
        assert!(!passed(&deadline));
    }

    #[test]
    fn only_idle_connections_end_with_the_first_step_of_a_shutdown() {
        let deadlines = Deadlines::default();
        let (idle, busy) = (deadlines.register(), deadlines.register());
        idle.set_idle(true);

        deadlines.pass_idle();

        assert_eq!((passed(&idle), passed(&busy)), (true, false));
    }

    #[test]
    fn a_dropped_deadline_is_forgotten() {
        let deadlines = Deadlines::default();
        let deadline = deadlines.register();
        assert_eq!(deadlines.list.borrow().len(), 1);

        drop(deadline);
        deadlines.tick(1);

        assert!(deadlines.list.borrow().is_empty());
    }
}
