//! Object attributes of `.gnu.attributes`.

use crate::on_every_machine;
use crate::support::{Machine, Work};

fn attributes_of_all_objects_become_one_section(machine: &'static Machine) {
    let work = Work::on(machine);
    let a = work.s("a", ".gnu_attribute 4, 1\n.gnu_attribute 8, 2\n");
    let b = work.s("b", ".gnu_attribute 4, 3\n.gnu_attribute 300, 1\n");
    let main = work.c("main", "int main(void) { return 0; }", &[]);
    work.ld(&["-r", "-o", "both.o", &a, &b]).quiet();
    work.gcc(&["-o", "program", &main, "both.o", &a]).quiet();
    for file in ["both.o", "program"] {
        let section = work.elf(file).section(".gnu.attributes").clone();
        let list = [4, 3, 8, 2, 0xac, 2, 1];
        assert!(section.data.ends_with(&list), "{:x?}", section.data);
        assert_eq!(section.size as usize, 1 + 4 + 4 + 5 + list.len(), "{file}");
    }
    let c = work.s("c", ".gnu_attribute 8, 1\n");
    let outcome = work.gcc(&["-o", "program", &main, &a, &c]).ok();
    if machine.name == "s390x" {
        outcome.says(&["c.o", "vector ABI: software", "vector ABI: hardware in a.o"]);
    }
}

on_every_machine!(attributes_of_all_objects_become_one_section);
