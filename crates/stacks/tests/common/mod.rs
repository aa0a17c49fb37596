//! Recordings made by hand.

#![allow(dead_code, reason = "each test uses its part")]

pub mod unwound;

/// IP, TID, TIME, CALLCHAIN, CPU, PERIOD, REGS_USER, STACK_USER.
pub const SAMPLE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 13;
/// rax to rip without flags, r8 to r15.
pub const REGISTERS: u64 = 0x00ff_01ff;

/// An x86-64 recording under construction.
#[derive(Default)]
pub struct Writer {
    pub data: Vec<u8>,
}

pub fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn halves(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

impl Writer {
    pub fn record(&mut self, kind: u32, misc: u16, body: &[u8]) {
        self.data.extend(kind.to_le_bytes());
        self.data.extend(misc.to_le_bytes());
        self.data.extend((body.len() as u16 + 8).to_le_bytes());
        self.data.extend(body);
    }

    /// Adds a record that is not a sample. It ends with the fields of all such records: pid and tid, time,
    /// processor.
    pub fn event(&mut self, kind: u32, misc: u16, body: &[u8], pid: u32, time: u64) {
        let tail = [halves(&[pid, pid]), words(&[time, 0])].concat();
        self.record(kind, misc, &[body, &tail].concat());
    }

    pub fn comm(&mut self, pid: u32, name: &str, executed: bool, time: u64) {
        let mut body = halves(&[pid, pid]);
        body.extend(padded(name.as_bytes()));
        self.event(3, if executed { 1 << 13 } else { 2 }, &body, pid, time);
    }

    pub fn fork(&mut self, pid: u32, parent: u32, time: u64) {
        self.fork_with(pid, parent, 2, time);
    }

    pub fn fork_with(&mut self, pid: u32, parent: u32, misc: u16, time: u64) {
        let mut body = halves(&[pid, parent, pid, parent]);
        body.extend(words(&[time]));
        self.event(7, misc, &body, pid, time);
    }

    pub fn exit(&mut self, pid: u32, time: u64) {
        let mut body = halves(&[pid, pid, pid, pid]);
        body.extend(words(&[time]));
        self.event(4, 2, &body, pid, time);
    }

    pub fn mmap(&mut self, pid: u32, (address, length, offset): (u64, u64, u64), path: &str, time: u64) {
        self.mmap_with(pid, (address, length, offset), path, None, time);
    }

    pub fn mmap_with(
        &mut self,
        pid: u32,
        (address, length, offset): (u64, u64, u64),
        path: &str,
        build_id: Option<&[u8]>,
        time: u64,
    ) {
        let mut identity = vec![0; 24];
        if let Some(id) = build_id {
            identity[0] = id.len() as u8;
            identity[4..4 + id.len()].copy_from_slice(id);
        }
        let misc = if build_id.is_some() { 2 | 1 << 14 } else { 2 };
        let body = mapping(pid, [address, length, offset], &identity, 5, path);
        self.event(10, misc, &body, pid, time);
    }

    /// A mapping with a protection.
    pub fn mmap_of(
        &mut self,
        pid: u32,
        (address, length, offset): (u64, u64, u64),
        path: &str,
        protection: u32,
        time: u64,
    ) {
        self.event(10, 2, &mapping(pid, [address, length, offset], &[0; 24], protection, path), pid, time);
    }

    /// A sample with stack and base pointer, instruction, and a copy of the stack.
    pub fn sample(&mut self, pid: u32, time: u64, [sp, fp, ip]: [u64; 3], chain: &[u64], stack: &[u8]) {
        let mut registers = [0u64; 17];
        (registers[6], registers[7], registers[8]) = (fp, sp, ip);
        self.sample_with(pid, time, ip, chain, Some((&registers, stack)));
    }

    pub fn sample_with(
        &mut self,
        pid: u32,
        time: u64,
        ip: u64,
        chain: &[u64],
        user: Option<(&[u64; 17], &[u8])>,
    ) {
        let mut body = words(&[ip]);
        body.extend(halves(&[pid, pid]));
        body.extend(words(&[time, 3, 1]));
        body.extend(words(&[chain.len() as u64]));
        body.extend(words(chain));
        self.sample_of(body, user);
    }

    /// Adds a sample with these fields at its start.
    pub fn sample_of(&mut self, mut body: Vec<u8>, user: Option<(&[u64; 17], &[u8])>) {
        match user {
            Some((registers, stack)) => {
                body.extend(words(&[2]));
                body.extend(words(registers));
                body.extend(words(&[stack.len() as u64]));
                body.extend(stack);
                body.extend(words(&[stack.len() as u64]));
            }
            None => body.extend(words(&[0, 0])),
        }
        self.record(9, 2, &body);
    }

    /// The file: header, one event, the data, and the machine's name.
    pub fn file(&self) -> Vec<u8> {
        let attribute = attribute();
        let attributes = 104u64;
        let described = attribute.len() as u64 + 16;
        let data = attributes + described;
        let mut file = b"PERFILE2".to_vec();
        file.extend(words(&[104, described, attributes, described, data, self.data.len() as u64, 0, 0]));
        // ARCH.
        file.extend(words(&[1 << 6, 0, 0, 0]));
        file.extend(&attribute);
        file.extend(words(&[0, 0]));
        file.extend(&self.data);
        let place = file.len() as u64 + 16;
        let mut machine = 64u32.to_le_bytes().to_vec();
        machine.extend(b"x86_64");
        machine.resize(68, 0);
        file.extend(words(&[place, machine.len() as u64]));
        file.extend(machine);
        file
    }

    /// The stream that perf writes to a pipe.
    pub fn pipe(&self) -> Vec<u8> {
        self.pipe_of(&[(attribute(), 7)])
    }

    /// The same with several events, each with the number in its records.
    pub fn pipe_of(&self, events: &[(Vec<u8>, u64)]) -> Vec<u8> {
        let mut stream = b"PERFILE2".to_vec();
        stream.extend(words(&[16]));
        let mut first = Self::default();
        for (attribute, id) in events {
            first.record(64, 0, &[&attribute[..], &words(&[*id])].concat());
        }
        let mut machine = words(&[6]);
        machine.extend(8u32.to_le_bytes());
        machine.extend(b"x86_64\0\0");
        first.record(80, 0, &machine);
        stream.extend(first.data);
        stream.extend(&self.data);
        stream
    }
}

fn attribute() -> Vec<u8> {
    attribute_of(SAMPLE, 0)
}

/// An event by its `sample_type` and `branch_sample_type`.
pub fn attribute_of(sample: u64, branch: u64) -> Vec<u8> {
    let mut attribute = vec![0u8; 112];
    attribute[4..8].copy_from_slice(&112u32.to_le_bytes());
    attribute[24..32].copy_from_slice(&sample.to_le_bytes());
    attribute[40..48].copy_from_slice(&(1u64 << 18).to_le_bytes());
    attribute[72..80].copy_from_slice(&branch.to_le_bytes());
    attribute[80..88].copy_from_slice(&REGISTERS.to_le_bytes());
    attribute
}

/// The body of a mapping record, without the fields at the end of all records.
pub fn mapping(pid: u32, place: [u64; 3], identity: &[u8], protection: u32, path: &str) -> Vec<u8> {
    let protection = halves(&[protection, 2]);
    [&halves(&[pid, pid]), &words(&place), identity, &protection, &padded(path.as_bytes())].concat()
}

fn padded(text: &[u8]) -> Vec<u8> {
    let mut padded = text.to_vec();
    padded.resize((text.len() + 1).next_multiple_of(8), 0);
    padded
}
