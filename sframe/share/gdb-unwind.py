"""Lets gdb unwind by SFrame.

gdb (up to 18) knows no SFrame. Where a program has no `.eh_frame` and no `.debug_frame`, gdb guesses from the
first instructions of a function, and loses the callers of code that has no ordinary prologue. This script asks
`sframe lookup` for the row of each address: of `.sframe`, of an index, of a compact table or of an unwind
table. Load it with

    source PREFIX/share/sframe/gdb-unwind.py

Rows of SFrame say where the caller's stack pointer, frame pointer and return address are, and nothing of other
registers; call frame information says all. So such rows count only in files whose SFrame is larger than their
call frame information (`set sframe-unwinder`). An unwind table says as much as `.eh_frame` did, and counts
where it stands.
"""

import gdb
import json
import os
import re
import struct
import subprocess
from gdb.unwinder import Unwinder, register_unwinder

SFRAME_SECTIONS = (".sframe", ".sframe_idx", ".sframe_compact")
CALL_FRAME_SECTIONS = (".eh_frame", ".debug_frame", ".zdebug_frame")
COMPLETE_TABLE = ".sframe_unwind"
SHT_GNU_SFRAME = 0x6FFFFFF4
ADDRESS_BITS = 48
WORD = 8


class Machine:
    """The registers of a machine, by gdb's names. `kept` are those that functions give back as they were.
    `signal_return` are the instructions to which a signal handler returns. The caller's stack pointer is
    `below` bytes below the CFA."""

    def __init__(self, pc, sp, fp, ra, kept, signal_return, below=0):
        self.pc, self.sp, self.fp, self.ra, self.kept = pc, sp, fp, ra, kept
        self.signal_return = tuple(bytes.fromhex(code) for code in signal_return)
        self.below = below


def numbered(letter, first, last):
    return tuple(f"{letter}{number}" for number in range(first, last + 1))


MACHINES = {
    # mov $15, %rax; syscall
    "i386:x86-64": Machine(
        "rip", "rsp", "rbp", None, ("rbx", "rbp") + numbered("r", 12, 15), ["48c7c00f0000000f05"]
    ),
    # mov x8, #139; svc #0
    "aarch64": Machine(
        "pc", "sp", "x29", "x30", numbered("x", 19, 29) + numbered("d", 8, 15), ["681180d2010000d4"]
    ),
    # svc 173, or svc 119
    "s390:64-bit": Machine(
        "pc", "r15", "r11", "r14", numbered("r", 6, 13) + numbered("f", 8, 15), ["0aad", "0a77"], 160
    ),
}


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class Choice(gdb.Parameter):
    """Where gdb unwinds by SFrame.

    missing: in files whose SFrame is larger than their call frame information, and by unwind tables.
    always: wherever there is a row. never: nowhere."""

    set_doc = "Set where gdb unwinds by SFrame."
    show_doc = "Show where gdb unwinds by SFrame."

    def __init__(self):
        super().__init__("sframe-unwinder", gdb.COMMAND_STACK, gdb.PARAM_ENUM, ["missing", "always", "never"])
        self.value = "missing"

    def get_set_string(self):
        gdb.invalidate_cached_frames()
        return ""

    def get_show_string(self, value):
        return f"SFrame is used: {value}."


class Command(gdb.Parameter):
    """The command that looks up rows."""

    set_doc = "Set the command that looks up rows of SFrame."
    show_doc = "Show the command that looks up rows of SFrame."

    def __init__(self):
        super().__init__("sframe-command", gdb.COMMAND_STACK, gdb.PARAM_OPTIONAL_FILENAME)
        beside = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../bin/sframe")
        self.value = os.path.normpath(beside) if os.path.exists(beside) else "sframe"

    def get_set_string(self):
        files.forget()
        gdb.invalidate_cached_frames()
        return ""

    def get_show_string(self, value):
        return f"Rows of SFrame are looked up by {value}."


def sections(path):
    """Name, type, address and size of each section of a 64-bit ELF file; none if it is no such file."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if head[:5] != b"\x7fELF\x02":
                return []
            order = "<" if head[5] == 1 else ">"
            start, = struct.unpack_from(order + "Q", head, 40)
            size, count, names = struct.unpack_from(order + "HHH", head, 58)
            if size != 64 or count == 0:
                return []
            file.seek(start)
            table = file.read(size * count)
            rows = [struct.unpack_from(order + "IIQQQQ", table, size * row) for row in range(count)]
            file.seek(rows[names][4])
            texts = file.read(rows[names][5])
    except (OSError, struct.error, IndexError):
        return []
    name = lambda offset: texts[offset:].split(b"\0", 1)[0].decode(errors="replace")
    return [(name(row[0]), row[1], row[3], row[5]) for row in rows]


class File:
    """A file of the program: how far it was moved, whether its SFrame counts, and the rows found so far."""

    def __init__(self, path, parts):
        self.path, self.rows, self.bias = path, {}, None
        own = sections(path)
        size_of = lambda listed, wanted: sum(size for name, kind, _, size in listed if wanted(name, kind))
        frames = lambda name, _: name in CALL_FRAME_SECTIONS
        described = size_of(own, frames) + sum(size_of(sections(part), frames) for part in parts)
        rows = size_of(own, lambda name, kind: kind == SHT_GNU_SFRAME or name in SFRAME_SECTIONS)
        self.is_complete = any(name == COMPLETE_TABLE for name, *_ in own)
        self.is_sframe_alone = rows > described
        self.has_rows = rows > 0 or self.is_complete
        self.addresses = {name: address for name, _, address, _ in own if address}

    def row(self, address):
        """The row at an address of the file, as `sframe lookup` prints it. `None`: there is none."""
        if address not in self.rows:
            self.rows[address] = self.ask(address)
        return self.rows[address]

    def ask(self, address):
        words = [gdb.parameter("sframe-command"), "lookup", "--json", self.path, hex(address)]
        try:
            answer = subprocess.run(words, capture_output=True, text=True, check=False)
        except OSError as error:
            files.complain(f"{words[0]}: {error.strerror}; set sframe-command names it")
            return None
        try:
            return json.loads(answer.stdout)[0].get("found")
        except (ValueError, IndexError, AttributeError):
            files.complain(answer.stderr.strip() or f"{words[0]} lookup printed no JSON")
            return None


class Files:
    """The files of the program by path."""

    # A line of `info target`, whose words may be translated: 0x1000 - 0x1200 is .text in /lib/x.so
    LINE = re.compile(r"^\s*(0x[0-9a-f]+) - (0x[0-9a-f]+) \S+ (\.\S+)(?: \S+ (.+))?$", re.MULTILINE)

    def __init__(self):
        self.known, self.complaints = {}, set()

    def forget(self, *_):
        self.known = {}

    def complain(self, message):
        if message not in self.complaints:
            self.complaints.add(message)
            gdb.write(f"SFrame: {message}\n", gdb.STDERR)

    def at(self, pc):
        """The file at an address, with the distance that it was moved. `None`: no file, or none with rows."""
        space = gdb.current_progspace()
        path = space.solib_name(pc) or space.filename
        if not path:
            return None
        file = self.known.get(path)
        if file is None:
            parts = [one.filename for one in space.objfiles() if one.owner and one.owner.filename == path]
            file = self.known[path] = File(path, [part for part in parts if part])
            if file.has_rows:
                file.bias = self.bias(file, path == space.filename)
        return file if file.bias is not None else None

    def bias(self, file, is_program):
        for start, _, name, path in self.LINE.findall(gdb.execute("info target", to_string=True)):
            of_file = not path if is_program else path == file.path
            if of_file and name in file.addresses:
                return int(start, 16) - file.addresses[name]
        return None


files = Files()
choice = Choice()
command = Command()


class SFrameUnwinder(Unwinder):
    """Unwinds one frame by its row."""

    TERM = re.compile(r"(\*\()?(\w+?)([+-]\d+)?\)?")

    def __init__(self):
        super().__init__("sframe")
        # Where each thread is in each of its frames, by level.
        self.places = {}

    def forget(self, *_):
        self.places = {}

    def __call__(self, frame):
        machine = MACHINES.get(frame.architecture().name())
        if machine is None or choice.value == "never":
            return None
        pc, sp = self.read(frame, machine.pc), self.read(frame, machine.sp)
        if not pc or sp is None:
            return None
        looked_up = pc - self.is_behind_call(frame, machine, pc)
        file = files.at(looked_up)
        if file is None or not (choice.value == "always" or file.is_complete or file.is_sframe_alone):
            return None
        row = file.row(looked_up - file.bias)
        is_complete = row is not None and row["section"] == COMPLETE_TABLE
        if row is None or not (is_complete or choice.value == "always" or file.is_sframe_alone):
            return None
        return self.caller(frame, machine, file, row, is_complete)

    def is_behind_call(self, frame, machine, pc):
        """Whether the address is a return address, which may belong to the next function already. gdb does
        not say so: the innermost frame has none, nor has one that a signal interrupted."""
        thread, level = gdb.selected_thread(), frame.level()
        thread = thread.ptid if thread else None
        self.places[thread, level] = pc
        newer = self.places.get((thread, level - 1))
        return level > 0 and not (newer is not None and self.is_signal_return(machine, newer))

    @staticmethod
    def is_signal_return(machine, pc):
        memory = gdb.selected_inferior()
        try:
            return any(memory.read_memory(pc, len(code)).tobytes() == code for code in machine.signal_return)
        except gdb.MemoryError:
            return False

    def caller(self, frame, machine, file, row, is_complete):
        """What the row says of the caller. `None`: nothing, or it cannot be read."""
        rules = dict(word.split("=", 1) for word in row["rules"].split() if "=" in word)
        if "cfa" not in rules:
            return None
        try:
            cfa = self.value(frame, rules.pop("cfa"), None)
            registers = {
                machine.sp: self.value(frame, rules.get(machine.sp, f"cfa-{machine.below}"), cfa),
                machine.pc: self.return_address(frame, machine, rules, cfa),
            }
            if "signed" in row["rules"].split():
                registers[machine.pc] &= (1 << ADDRESS_BITS) - 1
            if machine.ra:
                registers[machine.ra] = registers[machine.pc]
            fp = rules.pop("fp", "u")
            registers.update(self.kept(frame, machine, {machine.fp: fp, **rules}, cfa, is_complete))
        except (gdb.error, gdb.MemoryError, ValueError):
            return None
        start = int(row["function_address"], 16) + file.bias
        info = frame.create_unwind_info(FrameId(self.word(cfa), self.word(start)))
        for name, value in registers.items():
            info.add_saved_register(name, self.word(value))
        return info

    def return_address(self, frame, machine, rules, cfa):
        rule = rules.pop("ra", "u")
        return self.value(frame, machine.ra if rule == "u" else rule, cfa)

    def kept(self, frame, machine, rules, cfa, is_complete):
        """The caller's values of registers that functions keep, as far as the row says where they are."""
        values = {}
        for name in machine.kept:
            rule = rules.get(name, "u" if is_complete else "lost")
            if rule == "lost":
                continue
            value = self.read(frame, name) if rule == "u" else self.value(frame, rule, cfa)
            if value is not None:
                values[name] = value
        return values

    def value(self, frame, rule, cfa):
        """The value of a term: `cfa-16`, `rbp+8`, `*(cfa-16)`."""
        term = self.TERM.fullmatch(rule)
        if term is None:
            raise ValueError(rule)
        dereferenced, base, offset = term.groups()
        start = cfa if base == "cfa" else self.read(frame, base)
        if start is None:
            raise ValueError(rule)
        place = (start + int(offset or 0)) % (1 << 64)
        if not dereferenced:
            return place
        order = "big" if self.is_big_endian() else "little"
        return int.from_bytes(gdb.selected_inferior().read_memory(place, WORD).tobytes(), order)

    @staticmethod
    def is_big_endian():
        return "big" in gdb.execute("show endian", to_string=True)

    @staticmethod
    def read(frame, name):
        """The bits of a register. `None`: they are not known in this frame."""
        try:
            value = frame.read_register(name)
            if value.type.code == gdb.TYPE_CODE_UNION:
                value = value["u"]
            if value.type.code == gdb.TYPE_CODE_FLT:
                return struct.unpack("<Q", struct.pack("<d", float(value)))[0]
            return int(value.cast(gdb.lookup_type("unsigned long"))) % (1 << 64)
        except (gdb.error, ValueError):
            return None

    @staticmethod
    def word(value):
        return gdb.Value(value).cast(gdb.lookup_type("unsigned long"))


unwinder = SFrameUnwinder()
register_unwinder(None, unwinder, replace=True)
for event in ("new_objfile", "clear_objfiles", "free_objfile", "exited"):
    if hasattr(gdb.events, event):
        getattr(gdb.events, event).connect(files.forget)
for event in ("cont", "exited"):
    getattr(gdb.events, event).connect(unwinder.forget)
