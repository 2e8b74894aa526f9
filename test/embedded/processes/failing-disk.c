/* Preloaded: while the file named by FAILING_DISK exists, every sync to disk fails as a broken disk would. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int broken(void) {
  const char *switch_file = getenv("FAILING_DISK");
  return switch_file && access(switch_file, F_OK) == 0;
}

#define FAIL_OR_CALL(name, type, ...)                    \
  if (broken()) {                                        \
    errno = EIO;                                         \
    return -1;                                           \
  }                                                      \
  return ((type)dlsym(RTLD_NEXT, #name))(__VA_ARGS__);

int fsync(int fd) { FAIL_OR_CALL(fsync, int (*)(int), fd) }
int fdatasync(int fd) { FAIL_OR_CALL(fdatasync, int (*)(int), fd) }
int msync(void *at, size_t length, int flags) { FAIL_OR_CALL(msync, int (*)(void *, size_t, int), at, length, flags) }
