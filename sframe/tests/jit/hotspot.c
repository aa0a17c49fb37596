/* A heap of code as HotSpot, Java's virtual machine, keeps it, with the tables that say where everything is:
 * a compiled method that uses the frame pointer for a value calls an adapter, which moves the stack pointer
 * and goes on to the interpreter, which calls back. Another compiled method runs on its own. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define SEGMENT 7 /* binary logarithm of its size */

struct space { char *low, *high; };
struct heap { int log2_segment_size; struct space memory, segmap; };
struct block { size_t length; char used; };
struct array { int length; void *data; };
struct symbol { uint16_t length; char body[32]; };
struct klass { long more; struct symbol *name; };
struct pool { struct klass *holder; };
struct constant { struct pool *constants; uint16_t name_index; };
struct method { struct constant *constant; };
struct blob {
	const char *name;
	int frame_size, frame_complete;
	char *code_begin, *code_end;
	struct method *method;
};
struct codelet { const char *description; int size; };
struct queue { char *buffer; int end; };

static struct heap heap = { .log2_segment_size = SEGMENT };
static struct heap *heap_list[] = { &heap };
static struct array heaps = { 1, heap_list }, *all_heaps = &heaps;
static struct queue queue, *interpreter = &queue;

struct field { const char *owner, *name, *of; int is_static; uint64_t offset; void *address; };
struct type { const char *name, *before; int oop, integer, is_unsigned; uint64_t size; };
#define AT(owner, name, of, type, member) { owner, name, of, 0, offsetof(type, member), 0 }
#define STATIC(owner, name, of, variable) { owner, name, of, 1, 0, &variable }
static struct field fields[] = {
	STATIC("CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", all_heaps),
	AT("GrowableArrayBase", "_len", "int", struct array, length),
	AT("GrowableArray<int>", "_data", "int*", struct array, data),
	AT("CodeHeap", "_memory", "VirtualSpace", struct heap, memory),
	AT("CodeHeap", "_segmap", "VirtualSpace", struct heap, segmap),
	AT("CodeHeap", "_log2_segment_size", "int", struct heap, log2_segment_size),
	AT("VirtualSpace", "_low", "char*", struct space, low),
	AT("VirtualSpace", "_high", "char*", struct space, high),
	AT("HeapBlock::Header", "_used", "bool", struct block, used),
	AT("CodeBlob", "_name", "const char*", struct blob, name),
	AT("CodeBlob", "_frame_size", "int", struct blob, frame_size),
	AT("CodeBlob", "_frame_complete_offset", "int", struct blob, frame_complete),
	AT("CodeBlob", "_code_begin", "address", struct blob, code_begin),
	AT("CodeBlob", "_code_end", "address", struct blob, code_end),
	AT("CompiledMethod", "_method", "Method*", struct blob, method),
	AT("Method", "_constMethod", "ConstMethod*", struct method, constant),
	AT("ConstMethod", "_constants", "ConstantPool*", struct constant, constants),
	AT("ConstMethod", "_name_index", "u2", struct constant, name_index),
	AT("ConstantPool", "_pool_holder", "InstanceKlass*", struct pool, holder),
	AT("Klass", "_name", "Symbol*", struct klass, name),
	AT("Symbol", "_length", "u2", struct symbol, length),
	AT("Symbol", "_body", 0, struct symbol, body),
	STATIC("AbstractInterpreter", "_code", "StubQueue*", interpreter),
	AT("StubQueue", "_stub_buffer", "address", struct queue, buffer),
	AT("StubQueue", "_queue_end", "int", struct queue, end),
	AT("InterpreterCodelet", "_description", "const char*", struct codelet, description),
	AT("InterpreterCodelet", "_size", "int", struct codelet, size),
	{ 0 },
};
static struct type types[] = {
	{ .name = "HeapBlock", .size = sizeof(struct block) },
	{ .name = "ConstantPool", .size = sizeof(struct pool) },
	{ 0 },
};
struct field *gHotSpotVMStructs = fields;
struct type *gHotSpotVMTypes = types;

static struct symbol class_name = { 8, "org/Fake" }, call_name = { 4, "call" }, spin_name = { 4, "spin" }, run_name = { 3, "run" };
static struct klass class = { 0, &class_name };
/* The names of methods lie behind the pool, as entries of it. */
static struct { struct pool pool; struct symbol *entries[3]; } pool = { { &class }, { &call_name, &spin_name, &run_name } };
static struct constant call_constant = { &pool.pool, 0 }, spin_constant = { &pool.pool, 1 };
static struct constant run_constant = { &pool.pool, 2 };
static struct method call_method = { &call_constant }, spin_method = { &spin_constant };
static struct method run_method = { &run_constant };

/* Adds a blob. Returns where its code is. */
static char *add(struct blob blob, const void *code, size_t size)
{
	static int next;
	size_t length = sizeof(struct block) + sizeof blob + size;
	char *at = heap.memory.low + (next << SEGMENT);
	int segments = (length + (1 << SEGMENT) - 1) >> SEGMENT;

	for (int i = 0; i < segments; i++)
		heap.segmap.low[next + i] = i;
	next += segments;
	*(struct block *)at = (struct block){ segments, 1 };
	blob.code_begin = at + sizeof(struct block) + sizeof blob;
	blob.code_end = blob.code_begin + size;
	memcpy(at + sizeof(struct block), &blob, sizeof blob);
	memcpy(blob.code_begin, code, size);
	return blob.code_begin;
}

static const unsigned char call_code[] = {
	0x55,                   /* push %rbp */
	0x48, 0x83, 0xec, 0x30, /* sub $48, %rsp: the frame is complete */
	0x31, 0xed,             /* xor %ebp, %ebp */
	0x49, 0x89, 0xe3,       /* mov %rsp, %r11: where this goes on */
	0xff, 0xd6,             /* call *%rsi, the adapter */
	0x48, 0x83, 0xc4, 0x30, /* add $48, %rsp */
	0x5d, 0xc3,             /* pop %rbp; ret */
};
static const unsigned char spin_code[] = {
	0x55, 0x48, 0x83, 0xec, 0x20,     /* push %rbp; sub $32, %rsp: the frame is complete */
	0x31, 0xed,                       /* xor %ebp, %ebp */
	0xb8, 0x00, 0x00, 0x01, 0x00,     /* mov $65536, %eax */
	0xff, 0xc8, 0x75, 0xfc,           /* dec %eax; jne */
	0x48, 0x83, 0xc4, 0x20,           /* add $32, %rsp */
	0x5d, 0xc3,                       /* pop %rbp; ret */
};
static const unsigned char adapter_code[] = {
	0x58,                   /* pop %rax */
	0x48, 0x83, 0xec, 0x40, /* sub $64, %rsp: room for arguments */
	0x50,                   /* push %rax */
	0xff, 0xe2,             /* jmp *%rdx, the interpreter */
};
static const unsigned char interpreter_code[] = {
	0x55, 0x48, 0x8b, 0xec, /* push %rbp; mov %rsp, %rbp: the frame is there */
	0x41, 0x53,             /* push %r11 */
	0x6a, 0x00, 0x51,       /* push $0; push %rcx, the method */
	0x48, 0x83, 0xec, 0x08, /* sub $8, %rsp */
	0xff, 0xd7,             /* call *%rdi */
	0x4c, 0x8b, 0x5d, 0xf8, /* mov -8(%rbp), %r11 */
	0xc9, 0x59,             /* leave; pop %rcx */
	0x4c, 0x89, 0xdc,       /* mov %r11, %rsp */
	0xff, 0xe1,             /* jmp *%rcx */
};

static void __attribute__((noinline)) work(void)
{
	for (int i = 0; i < 100000; i++)
		__asm__ volatile("");
}

/* In code that was freed, the frame pointer is still that of its caller. */
static const unsigned char freed_code[] = {
	0x48, 0x83, 0xec, 0x28, /* sub $40, %rsp */
	0xff, 0xd7,             /* call *%rdi */
	0x48, 0x83, 0xc4, 0x28, /* add $40, %rsp */
	0xc3,                   /* ret */
};

int main(int count, char **words)
{
	struct { struct codelet head; char code[sizeof interpreter_code]; } codelet = {
		{ "method entry point (kind = zerolocals)", sizeof codelet }, { 0 }
	};
	char *memory = mmap(0, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static char segments[1 << (16 - SEGMENT)];
	void (*call)(void (*)(void), char *, char *, struct method *), (*spin)(void), (*freed)(void (*)(void));
	char *called, *spun, *adapter, *made, *gone;

	memset(segments, 0xff, sizeof segments);
	heap.memory = (struct space){ memory, memory + (1 << 16) };
	heap.segmap = (struct space){ segments, segments + sizeof segments };
	memcpy(codelet.code, interpreter_code, sizeof interpreter_code);
	called = add((struct blob){ "nmethod", 8, 5, 0, 0, &call_method }, call_code, sizeof call_code);
	adapter = add((struct blob){ .name = "I2C/C2I adapters" }, adapter_code, sizeof adapter_code);
	made = add((struct blob){ .name = "Interpreter" }, &codelet, sizeof codelet);
	queue = (struct queue){ made, sizeof codelet };
	spun = add((struct blob){ "nmethod", 6, 5, 0, 0, &spin_method }, spin_code, sizeof spin_code);
	gone = add((struct blob){ "nmethod", 6, 5, 0, 0, &spin_method }, freed_code, sizeof freed_code);
	((struct block *)(gone - sizeof(struct blob)) - 1)->used = 0;
	memcpy(&freed, &gone, sizeof freed);
	if (count > 1) { /* Then main has a frame pointer. */
		for (int i = 0; i < 4000; i++)
			freed(work);
		return __builtin_frame_address(0) == words[1];
	}
	memcpy(&call, &called, sizeof call);
	memcpy(&spin, &spun, sizeof spin);
	for (int i = 0; i < 4000; i++) {
		call(work, adapter, made + sizeof codelet.head, &run_method);
		spin();
	}
	return 0;
}
