/* What every random program has of a C library: its start, constructors, thread-local storage and relocations
   of static programs, and functions that note values. No library is linked, so that links are small and runs
   are short.
   LIBRARY: what each shared library has. DYNAMIC: the dynamic linker has relocated everything. PIE: a static program that relocates itself. */
/* The dynamic linker reads packed relocations only of files that need a version of the C library's. */
int getpid(void);
#ifdef LIBRARY
int uses_c_library(void) { return getpid(); }
#else
typedef unsigned long u64;
typedef unsigned char u8;
typedef struct { u64 offset, info; long addend; } Rela;
typedef struct { long tag; u64 value; } Dyn;
typedef struct { unsigned name; u8 info, other; unsigned short section; u64 value, size; } Sym;
typedef struct { unsigned type, flags; u64 offset, vaddr, paddr, filesz, memsz, align; } Phdr;
typedef void Function(void);
#define HIDDEN __attribute__((visibility("hidden")))
extern Function *__init_array_start[] HIDDEN, *__init_array_end[] HIDDEN;
extern Function *__fini_array_start[] HIDDEN, *__fini_array_end[] HIDDEN;
extern Function *__preinit_array_start[] HIDDEN, *__preinit_array_end[] HIDDEN;
void run_units(void);

#if defined(__x86_64__)
enum { WRITE = 1, EXIT = 231, RELATIVE = 8, GLOB = 6, SLOT = 7, ABSOLUTE = 1, IRELATIVE = 37, TPOFF = 18, DTPMOD = 16, DTPOFF = 17 };
static long system_call(long n, long a, long b, long c) {
    __asm__ volatile("syscall" : "+a"(n) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return n;
}
__asm__(".section .text.start,\"ax\"\n.globl _start\n.type _start,@function\n_start: xor %ebp,%ebp\nmov %rsp,%rdi\nmov %rdx,%rsi\nand $-16,%rsp\ncall start\n.size _start,.-_start\n.text");
#elif defined(__aarch64__)
enum { WRITE = 64, EXIT = 94, RELATIVE = 1027, GLOB = 1025, SLOT = 1026, ABSOLUTE = 257, IRELATIVE = 1032, TPOFF = 1030, DTPMOD = 1028, DTPOFF = 1029 };
static long system_call(long n, long a, long b, long c) {
    register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}
__asm__(".section .text.start,\"ax\"\n.globl _start\n.type _start,%function\n_start: mov x29,xzr\nmov x30,xzr\nmov x1,x0\nmov x0,sp\nbl start\n.size _start,.-_start\n.text");
#else
enum { WRITE = 4, EXIT = 248, RELATIVE = 12, GLOB = 10, SLOT = 11, ABSOLUTE = 22, IRELATIVE = 61, TPOFF = 56, DTPMOD = 54, DTPOFF = 55 };
static long system_call(long n, long a, long b, long c) {
    register long r1 __asm__("r1") = n, r2 __asm__("r2") = a, r3 __asm__("r3") = b, r4 __asm__("r4") = c;
    __asm__ volatile("svc 0" : "+d"(r2) : "d"(r1), "d"(r3), "d"(r4) : "memory");
    return r2;
}
__asm__(".section .text.start,\"ax\"\n.globl _start\n.type _start,@function\n_start: lgr %r2,%r15\nlgr %r3,%r14\naghi %r15,-160\nxc 0(8,%r15),0(%r15)\nbrasl %r14,start\n.size _start,.-_start\n.text");
#endif

static char noted[8192];
static u64 used;

static void flush(void) {
    system_call(WRITE, 1, (long)noted, used);
    used = 0;
}

static void digits(u64 value) {
    for (int shift = 60; shift >= 0; shift -= 4)
        if (value >> shift || !shift) noted[used++] = "0123456789abcdef"[value >> shift & 15];
}

/* Notes a value. */
void observe(int id, u64 value) {
    if (used > sizeof noted - 64) flush();
    digits(id);
    noted[used++] = ' ';
    digits(value);
    noted[used++] = '\n';
}

/* Notes a text by its hash and length. */
void observe_text(int id, const char *text) {
    u64 hash = 5381, length = 0;
    while (text[length] && length < 100000) hash = hash * 33 + (u8)text[length++];
    observe(id, hash * 1000003 + length);
}

/* Notes the words of a range: their number, and a hash that depends on the order. */
void observe_range(int id, const u64 *start, const u64 *end) {
    u64 hash = 0, count = 0;
    for (; start < end && count < 100000; start++, count++) hash = hash * 1000003 + *start;
    observe(id, hash * 31 + count);
}

#ifndef DYNAMIC
static u64 thread_pointer, tls_offset, tls_size;
static char tls_area[65536] __attribute__((aligned(4096)));

/* Static programs have one block of thread-local storage: below the thread pointer, or 16 bytes and alignment
   above. */
static void set_tls(const Phdr *headers, u64 count, u64 base) {
    const Phdr *tls = 0;
    for (u64 i = 0; i < count; i++) if (headers[i].type == 7) tls = &headers[i];
    u64 align = tls && tls->align ? tls->align : 1, size = tls ? tls->memsz : 0;
    if (size > 16384 || align > 4096) system_call(EXIT, 99, 0, 0);
#ifdef __aarch64__
    thread_pointer = (u64)tls_area;
    tls_offset = 16 + ((tls ? tls->vaddr : 0) - 16 & align - 1);
#else
    thread_pointer = (u64)tls_area + 32768;
    tls_size = size + (-size - (tls ? tls->vaddr : 0) & align - 1);
    tls_offset = -tls_size;
#endif
    if (tls) {
        char *to = (char *)thread_pointer + tls_offset;
        const char *from = (const char *)(base + tls->vaddr);
        for (u64 i = 0; i < tls->filesz; i++) to[i] = from[i];
    }
#if defined(__x86_64__)
    *(u64 *)thread_pointer = thread_pointer;
    __asm__ volatile("syscall" : : "a"(158), "D"(0x1002), "S"(thread_pointer) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    __asm__ volatile("msr tpidr_el0, %0" : : "r"(thread_pointer));
#else
    __asm__ volatile("sar %%a0, %0\n\tsar %%a1, %1" : : "d"((unsigned)(thread_pointer >> 32)), "d"((unsigned)thread_pointer));
#endif
}

typedef struct { u64 module, offset; } Index;
#ifdef __s390x__
/* The argument is relative to the GOT, whose address the caller keeps in r12; the result is relative to the
   thread pointer. */
__asm__(".text\n.globl __tls_get_offset\n.type __tls_get_offset,@function\n__tls_get_offset: agr %r2,%r12\njg own_tls_offset\n.size __tls_get_offset,.-__tls_get_offset");
__attribute__((used)) HIDDEN u64 own_tls_offset(const Index *index) { return tls_offset + index->offset; }
#else
void *__tls_get_addr(const Index *index) { return (char *)thread_pointer + tls_offset + index->offset; }
#endif

#ifdef PIE
extern Dyn _DYNAMIC[] HIDDEN;
extern char __ehdr_start[] HIDDEN;
static const Sym *symbols;

static void relocate(const Rela *rela, u64 size, u64 base, int indirect) {
    for (const Rela *end = (const Rela *)((const char *)rela + size); rela < end; rela++) {
        u64 *place = (u64 *)(base + rela->offset), type = rela->info & 0xffffffff;
        const Sym *symbol = &symbols[rela->info >> 32];
        u64 value = rela->info >> 32 && symbol->section ? base + symbol->value : 0;
        u64 thread = rela->info >> 32 ? symbol->value : 0;
        if ((type == IRELATIVE) != indirect) continue;
        if (type == RELATIVE) *place = base + rela->addend;
        else if (type == IRELATIVE) *place = ((u64(*)(void))(base + rela->addend))();
        else if (type == GLOB || type == SLOT || type == ABSOLUTE) *place = value + rela->addend;
        else if (type == DTPMOD) *place = 1;
        else if (type == DTPOFF) *place = thread + rela->addend;
        else if (type == TPOFF) *place = tls_offset + thread + rela->addend;
        else if (type) system_call(EXIT, 98, 0, 0);
    }
}

static void relocate_packed(const u64 *words, u64 size, u64 base) {
    u64 *place = 0;
    for (const u64 *end = words + size / 8; words < end; words++) {
        if (*words & 1) {
            for (int i = 0; i < 63; i++) if (*words >> (i + 1) & 1) place[i] += base;
            place += 63;
        } else {
            place = (u64 *)(base + *words);
            *place++ += base;
        }
    }
}

static void relocate_all(u64 base, int indirect) {
    u64 rela = 0, size = 0, jump = 0, jump_size = 0, packed = 0, packed_size = 0;
    for (const Dyn *dyn = _DYNAMIC; dyn->tag; dyn++) {
        if (dyn->tag == 7) rela = dyn->value;
        if (dyn->tag == 8) size = dyn->value;
        if (dyn->tag == 23) jump = dyn->value;
        if (dyn->tag == 2) jump_size = dyn->value;
        if (dyn->tag == 36) packed = dyn->value;
        if (dyn->tag == 35) packed_size = dyn->value;
        if (dyn->tag == 6) symbols = (const Sym *)(base + dyn->value);
    }
    if (!indirect) relocate_packed((const u64 *)(base + packed), packed_size, base);
    relocate((const Rela *)(base + rela), size, base, indirect);
    /* A linker may count the second table in the first. */
    if (jump < rela || jump >= rela + size) relocate((const Rela *)(base + jump), jump_size, base, indirect);
}
#else
extern const Rela __rela_iplt_start[] HIDDEN __attribute__((weak)), __rela_iplt_end[] HIDDEN __attribute__((weak));
#endif
#endif

__attribute__((used)) HIDDEN void start(u64 *stack, Function *finish) {
#ifndef DYNAMIC
    u64 *word = stack + 1 + *stack + 1, headers = 0, count = 0;
    while (*word) word++;
    for (word++; *word; word += 2) {
        if (*word == 3) headers = word[1];
        if (*word == 5) count = word[1];
    }
#ifdef PIE
    u64 base = (u64)__ehdr_start;
    set_tls((const Phdr *)headers, count, base);
    relocate_all(base, 0);
    /* The image of thread-local storage may hold addresses, too. */
    set_tls((const Phdr *)headers, count, base);
    relocate_all(base, 1);
#else
    set_tls((const Phdr *)headers, count, 0);
    for (const Rela *rela = __rela_iplt_start; rela < __rela_iplt_end; rela++)
        *(u64 *)rela->offset = ((u64(*)(void))rela->addend)();
#endif
    for (Function **f = __preinit_array_start; f < __preinit_array_end; f++) (*f)();
#endif
    for (Function **f = __init_array_start; f < __init_array_end; f++) (*f)();
    run_units();
#ifdef DYNAMIC
    if (getpid() > 0 && finish) finish();
#else
    for (Function **f = __fini_array_end; f > __fini_array_start;) (*--f)();
#endif
    flush();
    for (;;) system_call(EXIT, 0, 0, 0);
}
#endif
