//! Chains against plain loops, for pools of several sizes.

use super::*;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// Numbers of threads. An interpreter (miri) is some hundred times slower, so it gets less of everything.
const THREADS: &[usize] = if cfg!(miri) { &[1, 2] } else { &[1, 2, 3, 8] };

/// Runs a test with pools of one to eight threads.
fn with_threads(test: impl Fn() + Sync) {
    for &threads in THREADS {
        let pool = rayon_core::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(&test);
    }
}

/// Numbers of items at which pieces begin to differ.
const COUNTS: &[usize] = if cfg!(miri) { &[0, 1, 3, 70] } else { &[0, 1, 2, 3, 7, 64, 1000, 4097] };

#[test]
fn results_come_in_the_order_of_the_items() {
    with_threads(|| {
        for &count in COUNTS {
            let numbers: Vec<usize> = (0..count).collect();
            assert_eq!(numbers.par_iter().map(|n| *n).collect(), numbers);
            assert_eq!((0..count).into_par_iter().map(|n| n * 2).collect(), even(count));
            let odd = numbers.par_iter().filter(|n| **n % 2 == 1).map(|n| n / 2).collect();
            assert_eq!(odd, (0..count / 2).collect::<Vec<_>>());
            let twice = numbers.par_iter().flat_map_iter(|&n| [n, n]).collect();
            assert_eq!(twice, numbers.iter().flat_map(|&n| [n, n]).collect::<Vec<_>>());
            let some = (0..count as u32).into_par_iter().filter_map(|n| (n % 3 == 0).then_some(n)).collect();
            assert_eq!(some, (0..count as u32).step_by(3).collect::<Vec<_>>());
        }
    });
}

fn even(count: usize) -> Vec<usize> {
    (0..count).map(|n| n * 2).collect()
}

#[test]
fn sources_are_paired_and_numbered() {
    with_threads(|| {
        for &count in COUNTS {
            let names: Vec<String> = (0..count).map(|n| n.to_string()).collect();
            let mut sums = vec![0; count];
            let rows = sums.par_iter_mut().zip(&names).zip(0..count + 5).enumerate();
            rows.for_each(|(number, ((sum, name), other))| {
                assert_eq!(number.to_string(), *name);
                *sum = number + other;
            });
            assert_eq!(sums, even(count));
            let owned = names.clone().into_par_iter().zip(names.par_chunks(1)).map(|(a, b)| a == b[0]);
            assert!(!owned.any(|same| !same));
        }
    });
}

#[test]
fn chunks_cover_the_slice_whatever_their_size() {
    with_threads(|| {
        for &count in COUNTS {
            for size in [1, 3, 64, 5000] {
                let mut numbers: Vec<usize> = (0..count).collect();
                let expected: Vec<Vec<usize>> = numbers.chunks(size).map(<[usize]>::to_vec).collect();
                assert_eq!(numbers.par_chunks(size).map(<[usize]>::to_vec).collect(), expected);
                numbers.par_chunks_mut(size).for_each(|chunk| chunk.iter_mut().for_each(|n| *n *= 2));
                assert_eq!(numbers, even(count));
            }
        }
    });
}

#[test]
fn folds_say_what_loops_say() {
    with_threads(|| {
        for &count in COUNTS {
            let numbers: Vec<u64> = (0..count as u64).map(|n| n * 7919 % 1009).collect();
            assert_eq!(numbers.par_iter().map(|n| *n).sum(), numbers.iter().sum::<u64>());
            assert_eq!(numbers.par_iter().map(|n| *n).min(), numbers.iter().copied().min());
            assert_eq!(numbers.par_iter().filter(|n| **n > 500).count(), {
                numbers.iter().filter(|n| **n > 500).count()
            });
            assert_eq!(numbers.par_iter().any(|n| *n == 1008), numbers.contains(&1008));
            let texts = numbers.par_iter().map(u64::to_string);
            let expected: String = numbers.iter().map(u64::to_string).collect();
            assert_eq!(texts.reduce(String::new, |a, b| a + &b), expected);
        }
    });
}

#[test]
fn pieces_keep_to_their_limits() {
    with_threads(|| {
        let sizes =
            |chain: Chain<std::ops::Range<usize>, Same>| chain.fold_pieces(|| 0, |size, _| *size += 1);
        let sum = |sizes: &[usize]| sizes.iter().sum::<usize>();
        let large = sizes((0..1000).into_par_iter().with_min_len(300));
        assert!(large.iter().all(|size| *size >= 300) && sum(&large) == 1000, "{large:?}");
        let whole = sizes((0..1000).into_par_iter().with_min_len(501));
        assert_eq!(whole, [1000]);
        let small = sizes((0..1000).into_par_iter().with_max_len(10));
        let alone = rayon_core::current_num_threads() == 1;
        assert!(alone || small.iter().all(|size| *size <= 10) && sum(&small) == 1000, "{small:?}");
    });
}

#[test]
fn a_thread_without_work_takes_half_of_what_another_has() {
    let pool = rayon_core::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    let threads = Mutex::new(BTreeSet::new());
    pool.install(|| {
        // The last item is in the last piece of the first cut.
        (0..64usize).into_par_iter().for_each(|number| {
            if number >= 48 {
                std::thread::sleep(Duration::from_millis(2));
                threads.lock().unwrap().insert(rayon_core::current_thread_index());
            }
        });
    });
    assert!(threads.into_inner().unwrap().len() > 1);
}

#[test]
fn a_panic_comes_to_the_caller() {
    with_threads(|| {
        let fail = || {
            (0..100usize)
                .into_par_iter()
                .map(|n| if n == 77 { panic!("77") } else { n.to_string() })
                .collect()
        };
        let caught: std::thread::Result<Vec<String>> = std::panic::catch_unwind(fail);
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"77"));
    });
}

#[test]
fn lists_are_sorted_the_same_way_by_any_number_of_threads() {
    // Few different keys, so that many items are equal, with a number each that says which is which.
    let scattered = |n: u32| (n.wrapping_mul(2_654_435_761) >> 20 & 0x7f, n);
    let orders = std::sync::Mutex::new(BTreeSet::new());
    for count in [0, 1, 8191, 8192, 8193, 100_000] {
        let list: Vec<(u32, u32)> = (0..count).map(scattered).collect();
        let mut expected = list.clone();
        expected.sort();
        with_threads(|| {
            let mut all = list.clone();
            all.par_sort_unstable();
            assert_eq!(all, expected);
            all.par_sort_unstable();
            assert_eq!(all, expected);
            all.par_sort_unstable_by(|a, b| b.cmp(a));
            assert!(all.iter().rev().eq(&expected));
            let mut stable = list.clone();
            stable.sort_by_key(|item| item.0 / 2);
            let mut by_key = list.clone();
            by_key.par_sort_by_key(|item| item.0 / 2);
            assert_eq!(by_key, stable);
            all.par_sort_unstable_by(|a, b| a.0.cmp(&b.0));
            orders.lock().unwrap().insert(all);
        });
    }
    // One order for each length.
    assert_eq!(orders.into_inner().unwrap().len(), 6);
}

#[test]
fn join_returns_both_results() {
    with_threads(|| {
        let text = String::from("a");
        assert_eq!(join(|| text.clone() + "b", || text.len()), ("ab".to_owned(), 1));
    });
}

#[test]
fn many_small_pieces_are_put_in_order_once() {
    let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    // To insert each piece into an ordered list would take minutes.
    let count = 1usize << 18;
    let pieces = pool.install(|| {
        let numbers = (0..count).into_par_iter().with_max_len(1);
        numbers.fold_pieces(Vec::new, |piece, number| piece.push([number; 8]))
    });
    assert!(pieces.iter().flatten().map(|item| item[0]).eq(0..count));
}

#[test]
fn items_without_bytes_are_counted_and_written() {
    with_threads(|| {
        for &count in COUNTS {
            let nothing = vec![(); count];
            assert_eq!(nothing.par_iter().map(|item| *item).collect(), nothing);
            assert_eq!(nothing.par_iter().enumerate().map(|(number, ())| number).collect().len(), count);
            assert_eq!((0..count).into_par_iter().map(drop).collect(), nothing);
            assert_eq!(nothing.into_par_iter().filter(|()| true).count(), count);
        }
    });
}

#[test]
fn loops_run_inside_of_loops_and_outside_of_pools() {
    let row = |row: usize| {
        let products = (0..50usize).into_par_iter().map(move |column| row * column);
        let texts = || (0..9usize).into_par_iter().map(|n| n.to_string()).collect();
        let (sum, texts) = join(|| products.sum(), texts);
        (sum, texts.len())
    };
    let table = || (0..70usize).into_par_iter().map(row);
    let expected: Vec<(usize, usize)> = (0..70).map(|row| (row * 49 * 50 / 2, 9)).collect();
    assert_eq!(table().collect(), expected);
    with_threads(|| assert_eq!(table().collect(), expected));
}

/// Counts how many of it there are.
struct Counted<'c>(&'c AtomicUsize);

impl<'c> Counted<'c> {
    fn new(alive: &'c AtomicUsize) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Counted(alive)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn each_item_is_dropped_once_and_a_panic_drops_none_twice() {
    let alive = AtomicUsize::new(0);
    with_threads(|| {
        let make = |_| Counted::new(&alive);
        let all = (0..1000usize).into_par_iter().map(make).collect();
        assert_eq!((all.len(), alive.load(Ordering::Relaxed)), (1000, 1000));
        let half = all.into_par_iter().enumerate().filter(|(n, _)| n % 2 == 0).collect();
        assert_eq!((half.len(), alive.load(Ordering::Relaxed)), (500, 500));
        drop(half);
        assert_eq!(alive.load(Ordering::Relaxed), 0);
        let fail = || {
            let failing = |n| if n == 500 { panic!("500") } else { Counted::new(&alive) };
            (0..1000usize).into_par_iter().map(failing).collect().len()
        };
        assert!(std::panic::catch_unwind(fail).is_err());
        // What was written stays, and nothing was counted down twice.
        assert!(alive.swap(0, Ordering::Relaxed) < 1000);
    });
}
