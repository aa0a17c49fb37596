/* Answers questions about a blob with libsframe: `PROGRAM BLOB QUESTIONS`. A question is 24 bytes: 1 if it is
   about a row by its place, else 0; the type of the FDE; and either the address to look up, counted from the
   blob, or the FDE's number in the upper half and the row's number in the lower one. One line for each: start
   of the row, base register of the CFA (0 frame pointer, 1 stack pointer), offsets of CFA, RA and FP, and
   whether the return address is mangled, `-` for what is not there; for flexible FDEs the start and the data
   words without their sign.

   With BEFORE_ERRATA the interface is that of libsframe.so.1 (binutils up to 2.44): accessors do not
   take the type of the FDE, look-ups take 32 bits, and a row without words is no outermost frame yet. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct sframe_decoder_ctx decoder;
/* A start and, by release, more or less data; the library writes it, and only it reads it. */
typedef struct { uint32_t start; unsigned char rest[124]; } row;

#ifdef BEFORE_ERRATA
#define TYPE
typedef int32_t address;
#else
#define TYPE uint32_t,
typedef int64_t address;
uint32_t sframe_get_fre_udata(const row *, int, int *);
bool sframe_fre_get_ra_undefined_p(const decoder *, const row *, int *);
#endif
decoder *sframe_decode(const char *, size_t, int *);
const char *sframe_errmsg(int);
int sframe_find_fre(const decoder *, address, row *);
int sframe_decoder_get_fre(const decoder *, unsigned, unsigned, row *);
uint8_t sframe_fre_get_base_reg_id(const row *, int *);
int32_t sframe_fre_get_cfa_offset(const decoder *, const row *, TYPE int *);
int32_t sframe_fre_get_ra_offset(const decoder *, const row *, TYPE int *);
int32_t sframe_fre_get_fp_offset(const decoder *, const row *, TYPE int *);
bool sframe_fre_get_ra_mangled_p(const decoder *, const row *, int *);

struct question { uint64_t is_row, type; int64_t place; };

static void *contents(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) { perror(path); exit(2); }
    fseek(file, 0, SEEK_END);
    *size = ftell(file);
    rewind(file);
    void *bytes = malloc(*size + 1);
    if (fread(bytes, 1, *size, file) != *size) exit(2);
    fclose(file);
    return bytes;
}

static void number(int32_t value, int error) {
    if (error) printf(" -"); else printf(" %" PRId32, value);
}

static bool is_undefined(decoder *context, const row *found) {
    int error = 0;
#ifdef BEFORE_ERRATA
    sframe_fre_get_cfa_offset(context, found, &error);
    return error;
#else
    return sframe_fre_get_ra_undefined_p(context, found, &error);
#endif
}

static void words(const row *found) {
    printf("%" PRIu32, found->start);
#ifndef BEFORE_ERRATA
    for (int word = 0;; word++) {
        int error = 0;
        uint32_t value = sframe_get_fre_udata(found, word, &error);
        if (error) break;
        printf(" %" PRIu32, value);
    }
#endif
    puts("");
}

#ifdef BEFORE_ERRATA
#define OF_ROW context, found
#else
#define OF_ROW context, found, 0
#endif

static void offsets(decoder *context, const row *found) {
    int error = 0;
    printf("%" PRIu32 " %d", found->start, sframe_fre_get_base_reg_id(found, &error));
    error = 0; int32_t value = sframe_fre_get_cfa_offset(OF_ROW, &error); number(value, error);
    error = 0; value = sframe_fre_get_ra_offset(OF_ROW, &error); number(value, error);
    error = 0; value = sframe_fre_get_fp_offset(OF_ROW, &error); number(value, error);
    printf(" %d\n", sframe_fre_get_ra_mangled_p(context, found, &error));
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    size_t size, asked;
    char *blob = contents(arguments[1], &size);
    struct question *questions = contents(arguments[2], &asked);
    int error = 0;
    decoder *context = sframe_decode(blob, size, &error);
    if (!context) { fprintf(stderr, "cannot decode: %s\n", sframe_errmsg(error)); return 1; }
    for (size_t i = 0; i < asked / sizeof *questions; i++) {
        struct question *it = &questions[i];
        row found;
        int missing = it->is_row
            ? sframe_decoder_get_fre(context, (uint64_t)it->place >> 32, (uint32_t)it->place, &found)
            : sframe_find_fre(context, it->place, &found);
        if (missing) puts("none");
        else if (is_undefined(context, &found)) printf("%" PRIu32 " undefined\n", found.start);
        else if (it->type) words(&found);
        else offsets(context, &found);
    }
    return 0;
}
