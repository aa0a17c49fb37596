//! The place of objects that a search takes late, among those that it took in the order of the command line.

/// The order of the objects that the first search took and of late ones: files that plugins added, from row
/// `first_added` on, stand at the `place` of the intermediate code, and other late members where their
/// archives are.
pub fn link_order((early, late): (&[u32], &[u32]), place: usize, first_added: u32) -> Vec<u32> {
    let slot = |file: u32| match early.iter().rposition(|&other| other < file) {
        _ if file >= first_added => (place, 1),
        Some(last) => (last + 1, 2),
        None => (0, 2),
    };
    let mut order: Vec<((usize, u32), u32)> =
        early.iter().copied().zip(1..).map(|(file, row)| ((row, 0), file)).collect();
    order.extend(late.iter().map(|&file| (slot(file), file)));
    order.sort_by_key(|&(slot, _)| slot);
    order.into_iter().map(|(_, file)| file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_stands_in_the_place_of_intermediate_code() {
        // crt1 0, [intermediate 1], regular 2, archive 3..6 (4 was taken), crtn 6; plugins add 7 and 8.
        let early = [0, 2, 4, 6];
        assert_eq!(link_order((&early, &[7, 8, 5]), 1, 7), [0, 7, 8, 2, 4, 5, 6]);
        assert_eq!(link_order((&early, &[7, 3]), 1, 7), [0, 7, 2, 3, 4, 6]);
    }
}
