//! One descriptor for all that a recording waits for: rings that fill, and a timer, since what a ring holds
//! while it fills slowly must be read, too.
//!
//! The kernel says only once that a ring has filled: whoever asks next is told that nothing is there. The
//! timer is what keeps the descriptor readable until somebody reads.

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The descriptor.
pub struct Poll {
    epoll: OwnedFd,
    timer: OwnedFd,
    tick: Duration,
    /// Of how many descriptors it is.
    count: usize,
}

impl Poll {
    /// A descriptor that becomes readable when one of these does, and this time after the last reading.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new<'a>(rings: impl Iterator<Item = BorrowedFd<'a>>, tick: Duration) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let add = |descriptor| epoll::add(&epoll, descriptor, EventData::new_u64(0), EventFlags::IN);
        let mut count = 1;
        add(timer.as_fd())?;
        for ring in rings {
            add(ring)?;
            count += 1;
        }
        let poll = Self { epoll, timer, tick, count };
        poll.begin_again()?;
        Ok(poll)
    }

    /// Waits until the descriptor is readable, and for this time at most, and takes notice of why: it is not
    /// readable afterwards until something new happens. Do this before the rings are read.
    pub fn wait(&self, most: Option<Duration>) {
        let most = most.map(timespec);
        // There is room for all that the kernel can say, so that it says it at once.
        let mut said: Vec<Event> = Vec::with_capacity(self.count);
        // If a signal ends the wait, the rings are read earlier.
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut said), most.as_ref());
        let _ = self.begin_again();
    }

    /// Lets the time of the timer begin.
    fn begin_again(&self) -> io::Result<()> {
        let (it_interval, it_value) = (timespec(Duration::ZERO), timespec(self.tick));
        let once = Itimerspec { it_interval, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn timespec(time: Duration) -> Timespec {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() }
}

#[cfg(test)]
mod tests {
    use super::Poll;
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::pipe::pipe;
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    fn is_readable(of: &Poll) -> bool {
        let mut polled = [PollFd::new(of, PollFlags::IN)];
        poll(&mut polled, Some(&super::timespec(Duration::ZERO))).unwrap() > 0
    }

    #[test]
    fn it_is_readable_until_it_is_read_and_again_after_a_tick() {
        let (read, write) = pipe().unwrap();
        let both = Poll::new([read.as_fd()].into_iter(), Duration::from_secs(600)).unwrap();
        assert!(!is_readable(&both));
        rustix::io::write(&write, b"x").unwrap();
        assert!(is_readable(&both) && is_readable(&both));
        both.wait(None);
        rustix::io::read(&read, &mut [0; 8]).unwrap();
        assert!(!is_readable(&both));
        let tick = Duration::from_millis(20);
        let (start, timer) = (Instant::now(), Poll::new(std::iter::empty(), tick).unwrap());
        timer.wait(None);
        assert!(start.elapsed() >= tick);
        assert!(!is_readable(&timer) || start.elapsed() >= 2 * tick);
        std::thread::sleep(2 * tick);
        assert!(is_readable(&timer) && is_readable(&timer));
        timer.wait(Some(Duration::ZERO));
        assert!(!is_readable(&timer) || start.elapsed() >= 4 * tick);
    }
}
