/* A linker plugin for tests. It claims objects that hold the text MARK or IDLE, and does as its options say:
   group tells of a COMDAT group `shared` with two definitions, file=PATH adds an object, fatal=HOOK and error=HOOK report, status=HOOK gives a status, decline claims nothing.
   It notes in the file `log` what the linker told it. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

struct file { const char *name; int fd; off_t offset, size; void *handle; };
struct symbol {
  char *name, *version;
  char def, type, section, unused;
  int visibility;
  uint64_t size;
  char *comdat;
  int resolution;
};
struct entry { int tag; union { int number; const char *text; void *call; } value; };

typedef int (*hook)(void);
typedef int (*claim)(const struct file *, int *, int);

static int (*message)(int, const char *, ...);
static int (*add_symbols)(void *, int, const struct symbol *);
static int (*get_symbols[3])(const void *, int, struct symbol *);
static int (*add_input_file)(const char *);
static int (*get_view)(const void *, const void **);
static int (*get_input_file)(const void *, struct file *);
static int (*release_input_file)(const void *);
static int (*get_wrap)(uint64_t *, const char ***);

static const char *options[16];
static int option_count;
static struct symbol symbols[] = {
  { .name = "ir_main", .def = 0, .type = 1 }, { .name = "ir_weak", .def = 1, .type = 2 },
  { .name = "ir_common", .def = 4, .type = 2, .size = 4 }, { .name = "known", .def = 2 },
  { .name = "missing", .def = 3 }, { .name = "printf", .def = 2 },
  { .name = "ir_other", .def = 0, .type = 2, .visibility = 3 },
};
enum { COUNT = sizeof symbols / sizeof *symbols };
static const struct symbol grouped[] = {
  { .name = "ir_main", .def = 0, .type = 1 },
  { .name = "shared_one", .def = 1, .type = 1, .comdat = "shared" },
  { .name = "shared_two", .def = 1, .type = 1, .comdat = "shared" },
};
static void *handles[4];
static int handle_count;

static void note(const char *format, ...) {
  FILE *log = fopen("log", "a");
  va_list arguments;
  va_start(arguments, format);
  vfprintf(log, format, arguments);
  va_end(arguments);
  fclose(log);
}

static const char *option(const char *name) {
  size_t length = strlen(name);
  for (int i = 0; i < option_count; i++)
    if (strncmp(options[i], name, length) == 0)
      return options[i] + length;
  return NULL;
}

static int does(const char *what, const char *where) {
  const char *found = option(what);
  return found && strcmp(found, where) == 0;
}

static int act(const char *where) {
  if (does("fatal=", where)) {
    message(3, "it cannot go on: %d", 42);
    note("went on\n");
  }
  if (does("error=", where))
    message(2, "something is wrong");
  return does("status=", where) ? 3 : 0;
}

static const char *base(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static int claim_file(const struct file *file, int *claimed, int used) {
  static char bytes[1 << 16];
  ssize_t size = pread(file->fd, bytes, file->size < (off_t)sizeof bytes ? file->size : (off_t)sizeof bytes, file->offset);
  int mark = memmem(bytes, size, "MARK", 4) != NULL, idle = memmem(bytes, size, "IDLE", 4) != NULL;
  if (option("decline") || (!mark && !idle))
    return act("claim");
  note("claim %s %s used %d\n", base(file->name), file->offset ? "at-offset" : "whole", used);
  const void *view = NULL;
  if (get_view(file->handle, &view) == 0 && memmem(view, file->size, "MARK", 4))
    note("view MARK\n");
  handles[handle_count++] = file->handle;
  *claimed = 1;
  if (mark && option("group"))
    add_symbols(file->handle, sizeof grouped / sizeof *grouped, grouped);
  else if (mark)
    add_symbols(file->handle, COUNT, symbols);
  return act("claim");
}

static int all_symbols_read(void) {
  for (int h = 0; h < handle_count && !option("group"); h++) {
    for (int version = 2; version >= 0; version--) {
      struct symbol copy[COUNT];
      memcpy(copy, symbols, sizeof symbols);
      note("v%d status %d", version + 1, get_symbols[version](handles[h], COUNT, copy));
      for (int i = 0; i < COUNT; i++)
        note(" %s %d", copy[i].name, copy[i].resolution);
      note("\n");
    }
    struct file file;
    if (get_input_file(handles[h], &file) == 0)
      note("file %s %s\n", base(file.name), file.offset ? "at-offset" : "whole");
    release_input_file(handles[h]);
  }
  message(0, "%d of %s", 12, "symbols");
  message(1, "careful");
  if (option("file="))
    add_input_file(option("file="));
  return act("read");
}

static int cleanup(void) {
  note("cleanup\n");
  return 0;
}

int onload(const struct entry *entry) {
  int api = 0, output = -1, gnu = 0;
  const char *name = "";
  for (; entry->tag; entry++)
    switch (entry->tag) {
    case 1: api = entry->value.number; break;
    case 3: output = entry->value.number; break;
    case 4: options[option_count++] = entry->value.text; break;
    case 35: ((int (*)(claim))entry->value.call)(claim_file); break;
    case 6: ((int (*)(hook))entry->value.call)(all_symbols_read); break;
    case 7: ((int (*)(hook))entry->value.call)(cleanup); break;
    case 33: add_symbols = entry->value.call; break;
    case 9: get_symbols[0] = entry->value.call; break;
    case 25: get_symbols[1] = entry->value.call; break;
    case 28: get_symbols[2] = entry->value.call; break;
    case 10: add_input_file = entry->value.call; break;
    case 11: message = entry->value.call; break;
    case 12: get_input_file = entry->value.call; break;
    case 13: release_input_file = entry->value.call; break;
    case 15: name = entry->value.text; break;
    case 17: gnu = entry->value.number; break;
    case 18: get_view = entry->value.call; break;
    case 32: get_wrap = entry->value.call; break;
    }
  note("api %d output %d name %s gnu %d\n", api, output, name, gnu >= 200);
  uint64_t count = 0;
  const char **names = NULL;
  if (get_wrap(&count, &names) == 0 && count) {
    note("wrap");
    for (uint64_t i = 0; i < count; i++)
      note(" %s", names[i]);
    note("\n");
  }
  return act("onload");
}
