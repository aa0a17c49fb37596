/* Stacks by SFrame and .eh_frame: of this process, from a signal handler too, and of others.
 *
 * Link with `pkg-config --libs sframe-unwind`. x86-64, AArch64 and s390x Linux. */
#ifndef SFRAME_UNWIND_H
#define SFRAME_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a frame was found. */
enum sframe_source {
    SFRAME_TOPMOST = 0,        /* by no rule: it is the first */
    SFRAME_SFRAME = 1,         /* rows of the file's .sframe */
    SFRAME_EH_FRAME = 2,       /* rows derived from the file's .eh_frame */
    SFRAME_SIGNAL_CONTEXT = 3, /* the registers that the kernel saved for a signal handler */
    SFRAME_FRAME_POINTER = 4,  /* the frame pointer */
    SFRAME_INSTRUCTIONS = 5    /* rows read off the file's instructions */
};

/* How a step or a walk ended. */
enum sframe_end {
    SFRAME_CALLER = 0,      /* a step found the caller */
    SFRAME_ROOT = 1,        /* the outermost frame */
    SFRAME_FULL = 2,        /* there is room for no more frames */
    SFRAME_NO_ROWS = 3,     /* no rows cover the code */
    SFRAME_NO_MEMORY = 4,   /* memory could not be read */
    SFRAME_NO_REGISTER = 5, /* the value of a register is needed and not known */
    SFRAME_NO_PROGRESS = 6, /* the caller's frame would not lie above */
    SFRAME_MALFORMED = 7,   /* the rows are malformed */
    SFRAME_BUSY = 8         /* sframe_refresh has not run, or too many threads walk at this time */
};

/* What a number of enum sframe_end means, in English words without a full stop. The text stays for ever
 * and is never null. */
const char *sframe_end_text(int end);

typedef struct sframe_frame {
    uint64_t address; /* where the frame goes on: behind a call, but for the first and interrupted ones */
    uint64_t sp;      /* its stack pointer */
    int source;       /* enum sframe_source */
} sframe_frame;

/* Reads the files that are loaded. Call it at first, and after dlopen and dlclose; not in a signal
 * handler. It waits for walks that use what was read before, and for none that begins later. A child of
 * fork knows the files of its parent and may call both functions, whatever other threads of the parent did
 * at the fork. */
void sframe_refresh(void);

/* Code that a compiler has made as the program runs, and its SFrame section. The numbers are those that the
 * kernel's proposed system call sframe_register takes. */
typedef struct sframe_jit_code {
    uint64_t sframe_start; /* address of the section */
    uint64_t sframe_size;  /* its bytes */
    uint64_t text_start;   /* address of the code */
    uint64_t text_size;    /* its bytes */
} sframe_jit_code;

/* Tells of such code; call it before the code runs. Both must stay as they are until sframe_jit_unregister.
 * Profilers outside (`sframe record`) see it at once, and sframe_backtrace after the next sframe_refresh.
 * Returns -1 if one of the two is empty or ends behind the last address. Not in a signal handler. */
int sframe_jit_register(const sframe_jit_code *code);

/* Tells that the code whose section starts here is gone; call it before its memory is used for something
 * else. Returns -1 if there is no such code. Not in a signal handler. */
int sframe_jit_unregister(uint64_t sframe_start);

/* Where profilers look: the list of all such code, newest first. A compiler that does not use this library
 * may define the symbol itself, as an object with its size in the symbol table of the program or of a
 * library, and link and unlink entries with one store each. */
struct sframe_jit_entry {
    struct sframe_jit_entry *next;
    sframe_jit_code code;
};
struct sframe_jit_descriptor {
    uint32_t version;    /* 1 */
    uint32_t entry_size; /* at least that of struct sframe_jit_entry */
    struct sframe_jit_entry *first;
};
extern struct sframe_jit_descriptor __sframe_jit_descriptor;

/* Frames of this thread: from the code that a signal interrupted if `context` is the third argument of the
 * handler, or from the caller if it is null. Returns their number, at most 256, or 255 if `context` is
 * null; `*end` becomes one of enum sframe_end. May be called in a signal handler: it allocates nothing and
 * takes no lock. Needs about 10 KiB of stack. */
size_t sframe_backtrace(const void *context, sframe_frame *frames, size_t capacity, int *end);

/* Another process, or a stack that was saved. */
typedef struct sframe_unwinder sframe_unwinder;

/* Bytes of a section at the file's own address. They are copied. */
typedef struct sframe_section {
    const void *bytes;
    size_t size;
    uint64_t address;
} sframe_section;

/* Reads the word of 8 bytes at an address; returns 0 if it could. */
typedef int sframe_read(uint64_t address, uint64_t *word, void *data);

/* `machine`: 0 for this one, else SFrame's number: 1 and 2 AArch64 (big- and little-endian), 3 x86-64, 4
 * s390x. Null for another. */
sframe_unwinder *sframe_unwinder_new(int machine);
void sframe_unwinder_free(sframe_unwinder *unwinder);

/* Adds a file loaded at [start, end), `bias` above the addresses that it states; either section may be
 * null. `id` is the caller's number for the file. Returns -1 if .eh_frame cannot be read; the file is
 * added without it. */
int sframe_unwinder_add(sframe_unwinder *unwinder, uint64_t id, uint64_t start, uint64_t end, uint64_t bias,
                        const sframe_section *sframe, const sframe_section *eh_frame);
void sframe_unwinder_remove(sframe_unwinder *unwinder, uint64_t start);

/* Sets the topmost frame: registers by DWARF number, those with a `known` of 0 left out. */
void sframe_unwinder_begin(sframe_unwinder *unwinder, uint64_t pc, const uint64_t *values, const uint8_t *known, size_t count);

/* Goes to the caller. Returns SFRAME_CALLER and fills `frame` in, or says how the walk ended. Allocates
 * nothing. A step reads 40 words at most, whatever the tables and the stack hold; but a damaged stack may
 * go in circles, so bound the number of steps. */
int sframe_unwinder_step(sframe_unwinder *unwinder, sframe_read *read, void *data, sframe_frame *frame);

#ifdef __cplusplus
}
#endif
#endif
