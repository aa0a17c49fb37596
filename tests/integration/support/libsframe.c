/* Answers look-ups with libsframe: `PROGRAM SECTION QUERIES`. A query is 16 bytes: the address to look up,
   counted from the section, and the type of the FDE that covers it. One line for each: start of the row, base
   register of the CFA (0 frame pointer, 1 stack pointer), offsets of CFA, RA and FP, and whether the return address
   is mangled, `-` for what is not there; for flexible FDEs the start and the data words without their sign. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct sframe_decoder_ctx decoder;
/* A start and, by release, more or less data; the library writes it, and only it reads it. */
typedef struct { uint32_t start; unsigned char rest[124]; } row;

decoder *sframe_decode(const char *, size_t, int *);
const char *sframe_errmsg(int);
int sframe_find_fre(const decoder *, int64_t, row *);
uint8_t sframe_fre_get_base_reg_id(const row *, int *);
int32_t sframe_fre_get_cfa_offset(const decoder *, const row *, uint32_t, int *);
int32_t sframe_fre_get_ra_offset(const decoder *, const row *, uint32_t, int *);
int32_t sframe_fre_get_fp_offset(const decoder *, const row *, uint32_t, int *);
uint32_t sframe_get_fre_udata(const row *, int, int *);
bool sframe_fre_get_ra_mangled_p(const decoder *, const row *, int *);
bool sframe_fre_get_ra_undefined_p(const decoder *, const row *, int *);

struct query { int64_t pc; uint64_t type; };

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

int main(int count, char **arguments) {
    if (count != 3) return 2;
    size_t size, asked;
    char *section = contents(arguments[1], &size);
    struct query *queries = contents(arguments[2], &asked);
    int error = 0;
    decoder *context = sframe_decode(section, size, &error);
    if (!context) { fprintf(stderr, "cannot decode: %s\n", sframe_errmsg(error)); return 1; }
    for (size_t i = 0; i < asked / sizeof *queries; i++) {
        row found;
        if (sframe_find_fre(context, queries[i].pc, &found)) { puts("none"); continue; }
        uint32_t type = queries[i].type;
        if (sframe_fre_get_ra_undefined_p(context, &found, &error)) {
            printf("%" PRIu32 " undefined\n", found.start);
            continue;
        }
        if (type) {
            printf("%" PRIu32, found.start);
            for (int word = 0;; word++) {
                error = 0;
                uint32_t value = sframe_get_fre_udata(&found, word, &error);
                if (error) break;
                printf(" %" PRIu32, value);
            }
            puts("");
            continue;
        }
        printf("%" PRIu32 " %d", found.start, sframe_fre_get_base_reg_id(&found, &error));
        error = 0; int32_t value = sframe_fre_get_cfa_offset(context, &found, type, &error); number(value, error);
        error = 0; value = sframe_fre_get_ra_offset(context, &found, type, &error); number(value, error);
        error = 0; value = sframe_fre_get_fp_offset(context, &found, type, &error); number(value, error);
        printf(" %d\n", sframe_fre_get_ra_mangled_p(context, &found, &error));
    }
    return 0;
}
