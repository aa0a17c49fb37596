/* Functions since glibc 2.33, which were macros around others before. */

#if defined(__aarch64__)
#define STAT_VERSION 0
#else
#define STAT_VERSION 1
#endif
#define HIDDEN __attribute__((visibility("hidden")))

int __xstat64(int version, const char *path, void *status);
int __lxstat64(int version, const char *path, void *status);
int __fxstat64(int version, int file, void *status);
int __fxstatat64(int version, int folder, const char *path, void *status, int flags);

HIDDEN int stat64(const char *path, void *status) { return __xstat64(STAT_VERSION, path, status); }
HIDDEN int lstat64(const char *path, void *status) { return __lxstat64(STAT_VERSION, path, status); }
HIDDEN int fstat64(int file, void *status) { return __fxstat64(STAT_VERSION, file, status); }
HIDDEN int fstatat64(int folder, const char *path, void *status, int flags) {
    return __fxstatat64(STAT_VERSION, folder, path, status, flags);
}
HIDDEN int stat(const char *path, void *status) { return stat64(path, status); }
HIDDEN int lstat(const char *path, void *status) { return lstat64(path, status); }
HIDDEN int fstat(int file, void *status) { return fstat64(file, status); }
