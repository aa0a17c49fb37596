//! Compact tables for the program in the kernel, made on a thread of their own.
//!
//! The table of a large program takes seconds. The thread that unwinds asks for a table, goes on, and takes
//! those that are ready at the next event, so no ring fills meanwhile. Of those that wait, the one of the
//! least code is made next: nearly all stacks need the C library, and few the large program.
//!
//! Files with the same contents share a table: programs are copied, and containers have the same libraries at
//! other paths. Tables stay until the recording ends, as in the kernel, and their sum is bounded.

use crate::files::{FileId, Files};
use crate::table::{Content, Material, Table};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Bytes of all tables at most. The kernel has a copy. Stacks of further files are unwound in user space.
const MOST: usize = 256 << 20;

/// A table that somebody has asked for.
#[derive(Default)]
struct Entry {
    /// The files that it is of.
    files: Vec<FileId>,
    /// The table, once it was made. `None`: there is none.
    made: Option<Option<Arc<Table>>>,
}

/// A file's table that was made.
pub struct Ready {
    /// The file.
    pub file: FileId,
    /// The first file with this table.
    pub first: FileId,
    /// `None`: it has none, or there is no room for it.
    pub table: Option<Arc<Table>>,
}

/// The tables of a recording, by the numbers in which they were asked for.
pub struct Tables {
    entries: Vec<Entry>,
    by_content: HashMap<Content, usize>,
    asked: HashSet<FileId>,
    ready: VecDeque<Ready>,
    /// Bytes that further tables may have.
    room: usize,
    wanted: Sender<(usize, Material)>,
    made: Receiver<(usize, Option<Table>)>,
}

impl Tables {
    /// Starts the thread. It ends when this is dropped, or after the table that it makes at that time.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start() -> Result<Self, String> {
        let ((wanted, wishes), (results, made)) = (channel(), channel());
        let thread = std::thread::Builder::new().name("tables".into());
        thread.spawn(move || make_all(&wishes, &results)).map_err(|error| no_thread(&error))?;
        Ok(Self::new(wanted, made))
    }

    fn new(wanted: Sender<(usize, Material)>, made: Receiver<(usize, Option<Table>)>) -> Self {
        let (by_content, asked, ready) = (HashMap::new(), HashSet::new(), VecDeque::new());
        Self { entries: Vec::new(), by_content, asked, ready, room: MOST, wanted, made }
    }

    /// Asks for a file's table, if nobody has done so before.
    pub fn ask(&mut self, files: &Files, file: FileId) {
        if !self.asked.insert(file) {
            return;
        }
        let Some(material) = files.material(file).filter(|_| self.room > 0) else {
            self.ready.push_back(Ready { file, first: file, table: None });
            return;
        };
        let number = match material.content() {
            Some(content) => *self.by_content.entry(content).or_insert(self.entries.len()),
            None => self.entries.len(),
        };
        let Some(entry) = self.entries.get_mut(number) else {
            self.entries.push(Entry { files: vec![file], made: None });
            // If the thread has ended, the table never comes.
            let _ = self.wanted.send((number, material));
            return;
        };
        match &entry.made {
            Some(table) => {
                let first = entry.files.first().copied().unwrap_or(file);
                self.ready.push_back(Ready { file, first, table: table.clone() });
            }
            None => entry.files.push(file),
        }
    }

    /// The next table that was made.
    pub fn ready(&mut self) -> Option<Ready> {
        while let Ok(result) = self.made.try_recv() {
            self.add(result);
        }
        self.ready.pop_front()
    }

    /// Waits until all tables were made that were asked for.
    pub fn wait(&mut self) {
        while self.entries.iter().any(|entry| entry.made.is_none())
            && let Ok(result) = self.made.recv()
        {
            self.add(result);
        }
    }

    fn add(&mut self, (number, table): (usize, Option<Table>)) {
        let Some(entry) = self.entries.get_mut(number) else { return };
        let table = table.filter(|table| table.size() <= self.room).map(Arc::new);
        self.room -= table.as_ref().map_or(0, |table| table.size());
        let first = entry.files.first().copied();
        let ready =
            entry.files.iter().filter_map(|&file| Some(Ready { file, first: first?, table: table.clone() }));
        self.ready.extend(ready);
        entry.made = Some(table);
    }
}

/// Why there is no thread for some work, and what helps.
pub fn no_thread(error: &io::Error) -> String {
    format!("no thread can be started: {error}; raise `ulimit -u` or `ulimit -v`")
}

/// Makes tables until nobody wants more.
fn make_all(wishes: &Receiver<(usize, Material)>, results: &Sender<(usize, Option<Table>)>) {
    let mut waiting = BTreeMap::new();
    loop {
        let first = if waiting.is_empty() { wishes.recv().map(Some) } else { Ok(None) };
        let Ok(first) = first else { return };
        let wished = first.into_iter().chain(wishes.try_iter());
        waiting.extend(wished.map(|(number, material)| ((material.code_size(), number), material)));
        if let Some(((_, number), material)) = waiting.pop_first()
            && results.send((number, material.make())).is_err()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Options;
    use crate::image::Image;
    use sframe_format::Abi;
    use std::path::{Path, PathBuf};

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
    }

    fn files<const COUNT: usize>(names: [&str; COUNT]) -> (Files, [FileId; COUNT]) {
        let mut files = Files::new(Abi::Amd64, Options::default());
        let ids = names.map(|name| files.open_here(&fixture(name), None));
        (files, ids)
    }

    /// Tables without a thread, with the ends of the channels that the thread would have.
    type Bare = (Tables, Receiver<(usize, Material)>, Sender<(usize, Option<Table>)>);

    fn bare() -> Bare {
        let ((wanted, wishes), (results, made)) = (channel(), channel());
        (Tables::new(wanted, made), wishes, results)
    }

    #[test]
    fn the_thread_makes_what_was_asked_for_while_others_go_on() {
        let (files, [file]) = files(["undescribed"]);
        let mut tables = Tables::start().unwrap();
        tables.ask(&files, file);
        tables.wait();
        let ready = tables.ready().unwrap();
        assert_eq!((ready.file, ready.first), (file, file));
        assert!(ready.table.is_some_and(|made| made.table().is_some()));
        // Nothing else was asked for, so this waits for nothing.
        tables.wait();
        tables.ask(&files, file);
        assert!(tables.ready().is_none());
    }

    #[test]
    fn files_with_the_same_contents_share_a_table() {
        let (files, [first, second, third, other]) =
            files(["identified", "identified", "identified", "undescribed"]);
        assert!(files.get(first).unwrap().image().is_ok_and(|image| image.build_id().is_some()));
        let (mut tables, wishes, results) = bare();
        for file in [first, other, second] {
            tables.ask(&files, file);
        }
        let wished: Vec<_> = wishes.try_iter().collect();
        assert_eq!(wished.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1]);
        for (number, material) in wished {
            results.send((number, material.make())).unwrap();
        }
        let made: Vec<Ready> = std::iter::from_fn(|| tables.ready()).collect();
        let of: Vec<_> = made.iter().map(|ready| (ready.file, ready.first)).collect();
        assert_eq!(of, [(first, first), (second, first), (other, other)]);
        // Later ones have theirs at once.
        tables.ask(&files, third);
        let ready = tables.ready().unwrap();
        assert_eq!((ready.file, ready.first), (third, first));
        assert_eq!(ready.table.map(|table| table.size()), made[0].table.as_ref().map(|table| table.size()));
        assert!(wishes.try_recv().is_err());
    }

    #[test]
    fn without_a_build_id_or_with_other_code_each_file_has_its_own() {
        let (files, all) = files(["undescribed", "undescribed", "identified", "identified.debug"]);
        let (mut tables, wishes, _results) = bare();
        all.iter().for_each(|&file| tables.ask(&files, file));
        assert_eq!(wishes.try_iter().count(), 4);
    }

    #[test]
    fn what_there_is_no_room_for_is_unwound_elsewhere() {
        let (files, [first, second]) = files(["undescribed", "identified"]);
        let (mut tables, wishes, results) = bare();
        let made = |file| files.material(file).unwrap().make();
        tables.room = made(first).unwrap().size();
        tables.ask(&files, first);
        results.send((0, made(first))).unwrap();
        assert!(tables.ready().unwrap().table.is_some());
        // Nothing is even made.
        tables.ask(&files, second);
        assert!(tables.ready().unwrap().table.is_none());
        assert_eq!(wishes.try_iter().count(), 1);
        let (mut tables, ..) = bare();
        tables.room = 1;
        tables.entries.push(Entry { files: vec![first], made: None });
        tables.add((0, made(first)));
        assert!(tables.ready().unwrap().table.is_none() && tables.room == 1);
    }

    #[test]
    fn the_least_code_comes_first_and_nobody_waits_for_what_nobody_takes() {
        let (files, [small, large]) = files(["identified", "go_stacks"]);
        let code = |file| files.get(file).unwrap().image().map(Image::code).unwrap();
        assert!(
            code(small).map(|segment| segment.size).sum::<u64>()
                < code(large).map(|segment| segment.size).sum()
        );
        let ((wanted, wishes), (results, made)) = (channel(), channel());
        for (number, file) in [(7, large), (8, small)] {
            wanted.send((number, files.material(file).unwrap())).unwrap();
        }
        drop(wanted);
        make_all(&wishes, &results);
        assert_eq!(made.try_iter().map(|(number, _)| number).collect::<Vec<_>>(), [8, 7]);
        // A recording has ended: the thread does, too, though somebody still holds a channel to ask.
        let ((wanted, wishes), (results, made)) = (channel(), channel());
        wanted.send((0, files.material(small).unwrap())).unwrap();
        drop(made);
        make_all(&wishes, &results);
        drop(wanted);
    }
}
