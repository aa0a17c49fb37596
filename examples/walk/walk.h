/* The stack walker of walk.rs. */
#include <ucontext.h>

/* Reads the loaded files. */
void walk_prepare(void);
/* Walks from here, prints the frames, and compares with .eh_frame: 0 if they are the same. */
int walk(const char *title);
/* The same from where a signal came. */
int walk_from(const char *title, const ucontext_t *context);
/* Walks from where a single step stopped. */
void walk_step(const ucontext_t *context);
/* Prints what single steps gave: 0 if nothing was different. */
int walk_steps(void);
