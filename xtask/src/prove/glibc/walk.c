/* Gives glibc's SFrame reader what it takes from glibc itself: the SFrame section of the object that holds an
   address, by that object's program header, as dl_find_object does where glibc is configured with
   --enable-sframe. */
#include <dlfcn.h>
#include <link.h>
#include <sframe.h>
#include <stdint.h>

enum { PT_SFRAME = 0x6474e554 };

struct search { uintptr_t pc; void *sframe; };

static int look(struct dl_phdr_info *object, size_t size, void *data)
{
    (void)size;
    struct search *search = data;
    void *sframe = 0;
    int holds = 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        uintptr_t start = object->dlpi_addr + segment->p_vaddr;
        holds |= segment->p_type == PT_LOAD && search->pc - start < segment->p_memsz;
        if (segment->p_type == PT_SFRAME)
            sframe = (void *)start;
    }
    search->sframe = holds ? sframe : 0;
    return holds;
}

/* A real kernel's trampoline for signals lies in the vDSO, an object without SFrame; an emulator's lies in
   none. Both look the same to the reader here. */
int find_object(void *pc, struct dl_find_object *found)
{
    struct search search = { (uintptr_t)pc, 0 };
    dl_iterate_phdr(look, &search);
    found->dlfo_sframe = search.sframe;
    found->dlfo_flags = search.sframe ? DLFO_FLAG_SFRAME : 0;
    return 0;
}

/* As glibc's backtrace() begins, without the walk by .eh_frame that it falls back to. */
__attribute__((noinline)) int walk_by_sframe(void **addresses, int size)
{
    frame frame;
    frame.pc = __getPC();
    frame.sp = __getSP();
    frame.fp = (_Unwind_Ptr)__builtin_frame_address(0);
    return __stacktrace_sframe(addresses, size, &frame);
}

/* The caller of code at `pc` that has just been entered with the stack pointer `sp`. */
void *caller_at(void *pc, void **sp)
{
    frame frame = { .pc = (_Unwind_Ptr)pc, .sp = (_Unwind_Ptr)sp, .fp = 0 };
    void *caller = 0;
    return __stacktrace_sframe(&caller, 1, &frame) == 1 ? caller : 0;
}
