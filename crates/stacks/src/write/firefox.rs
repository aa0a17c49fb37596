//! The "processed profile" of the Firefox Profiler. It contains all names, so the profiler needs no files.

use super::named::Named;
use crate::process::Place;
use crate::profile::Row;
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, ProcessHandle, Profile,
    ReferenceTimestamp, SamplingInterval, StackHandle, ThreadHandle, Timestamp,
};
use std::collections::BTreeMap;
use std::io;
use std::time::SystemTime;

/// Writes all samples.
pub fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let profile = named.profile;
    let times: Vec<u64> = profile.rows.iter().filter_map(|row| row.time).collect();
    let start = times.iter().copied().min().unwrap_or(0);
    let reference = ReferenceTimestamp::from_system_time(SystemTime::now());
    let mut made = Profile::new(named.title, reference, interval(&times));
    made.set_symbolicated(true);
    let kernel = made.add_category("Kernel", CategoryColor::Orange);
    let user = made.add_category("User", CategoryColor::Yellow);
    let mut processes: BTreeMap<(u32, &str), ProcessHandle> = BTreeMap::new();
    let mut threads: BTreeMap<u32, ThreadHandle> = BTreeMap::new();
    let mut stacks: BTreeMap<(u32, u32), Option<StackHandle>> = BTreeMap::new();
    for row in &profile.rows {
        let Some(thread) = profile.threads.get(row.thread as usize) else { continue };
        let time = Timestamp::from_nanos_since_reference(row.time.unwrap_or(start) - start);
        let process = *processes
            .entry((thread.pid, &thread.process))
            .or_insert_with(|| made.add_process(&thread.process, thread.pid, time));
        let handle = *threads.entry(row.thread).or_insert_with(|| {
            let handle = made.add_thread(process, thread.tid, time, thread.pid == thread.tid);
            made.set_thread_name(handle, &thread.name);
            handle
        });
        let stack = match stacks.get(&(row.thread, row.stack)) {
            Some(&stack) => stack,
            None => {
                let frames = frames(named, row, &mut made, kernel, user);
                let stack = made.intern_stack_frames(handle, frames.into_iter());
                stacks.insert((row.thread, row.stack), stack);
                stack
            }
        };
        made.add_sample(handle, time, stack, CpuDelta::ZERO, 1);
    }
    serde_json::to_writer(&mut *to, &made)?;
    to.write_all(b"\n")
}

/// The average time between samples: the length of the recording divided by their number. At least a
/// microsecond.
fn interval(times: &[u64]) -> SamplingInterval {
    let (first, last) = (times.iter().min().copied().unwrap_or(0), times.iter().max().copied().unwrap_or(0));
    SamplingInterval::from_nanos(((last - first) / times.len().max(1) as u64).max(1_000))
}

/// The frames of a sample, outermost first.
fn frames(
    named: Named<'_>,
    row: &Row,
    made: &mut Profile,
    kernel: CategoryHandle,
    user: CategoryHandle,
) -> Vec<FrameInfo> {
    let numbers: Vec<u32> = named.profile.frames_of(row.stack).collect();
    let mut frames = Vec::new();
    for &number in numbers.iter().rev() {
        let place = named.profile.frames.get(number as usize).map(|key| key.place);
        let category = if matches!(place, Some(Place::Kernel(_))) { kernel } else { user };
        for name in named.names.of(number).iter().rev() {
            let file = name.file.rsplit('/').next().unwrap_or(&name.file);
            let label = made.intern_string(&format!("{} ({file})", name.function));
            let flags = FrameFlags::empty();
            frames.push(FrameInfo { frame: Frame::Label(label), category_pair: category.into(), flags });
        }
    }
    frames
}
