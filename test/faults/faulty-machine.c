/*
 * Preloaded into a process: a disk that is slow, fails, is full or loses power, and a clock that was set. LMDB makes a
 * commit durable in two steps, which are told apart here: fdatasync of its pages, and the write of its meta page through a
 * descriptor opened with O_DSYNC. The file named by FAULTY_MACHINE is shared memory: the test writes what is wrong and
 * reads what happened. FAULTY_UNDO names a folder that keeps what every write not synced yet has overwritten, and the
 * renames whose folder was not synced since; of databases, and of the files that are concerned.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct machine {
  int64_t hold_syncs, hold_metas;            /* 1: they wait */
  int64_t fail_syncs, fail_metas, fail_writes; /* errno, 0: they work */
  int64_t clock_ms;                          /* added to the time of day */
  int64_t held, syncs, metas;                /* how many wait now; how many were done */
  char part[56];                             /* of the paths that are concerned */
};
static volatile struct machine nothing, *machine = &nothing;
static const char *undo;

#define REAL(type, name) ((type)dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void attach(void) {
  const char *path = getenv("FAULTY_MACHINE");
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *at = mmap(NULL, sizeof(struct machine), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at != MAP_FAILED) machine = at;
  close(fd);
  undo = getenv("FAULTY_UNDO");
}

static int path_of(int fd, char *path, size_t size) {
  char link[40];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, size - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return 1;
}

static int concerned(int fd) {
  char path[4096];
  return machine->part[0] && path_of(fd, path, sizeof path) && strstr(path, (const char *)machine->part) != NULL;
}

static void wait_while(volatile int64_t *hold) {
  if (!*hold) return;
  __atomic_add_fetch(&machine->held, 1, __ATOMIC_SEQ_CST);
  while (*hold) usleep(1000);
  __atomic_sub_fetch(&machine->held, 1, __ATOMIC_SEQ_CST);
}

static void mangle(char *path) {
  for (char *c = path; *c; c++)
    if (*c == '/') *c = '%';
}

/* The file that keeps what a file's writes have overwritten since its last sync; -1: none is kept. */
static int undo_of(int fd) {
  char path[4096], name[4200];
  struct stat file;
  if (!undo || !path_of(fd, path, sizeof path) || path[0] != '/' || fstat(fd, &file) || !S_ISREG(file.st_mode)) return -1;
  size_t length = strlen(path), folder = strlen(undo);
  int database = length >= 9 && !strcmp(path + length - 9, "/data.mdb");
  if (!database && (!concerned(fd) || !strncmp(path, undo, folder))) return -1;
  mangle(path);
  snprintf(name, sizeof name, "%s/%s", undo, path);
  return open(name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void keep_undo(int fd, off_t offset, size_t length) {
  int file = undo_of(fd);
  if (file < 0) return;
  struct stat before;
  fstat(fd, &before);
  int64_t header[3] = {offset, (int64_t)length, before.st_size};
  char *entry = calloc(1, sizeof header + length);
  memcpy(entry, header, sizeof header);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int reader = open(path, O_RDONLY | O_CLOEXEC);
  if (pread(reader, entry + sizeof header, length, offset) < 0) abort();
  close(reader);
  if (REAL(ssize_t (*)(int, const void *, size_t), write)(file, entry, sizeof header + length) < 0) abort();
  free(entry);
  close(file);
}

static void forget_undo(int fd) {
  int file = undo_of(fd);
  if (file < 0) return;
  if (REAL(int (*)(int, off_t), ftruncate)(file, 0)) abort();
  close(file);
}

/* What was kept under the old name goes on under the new one; the rename itself is kept in a file "=<new name>". */
static void keep_rename(const char *from, const char *to) {
  char old[4096], new[4096], path[8400], moved[8400];
  snprintf(old, sizeof old, "%s", from);
  snprintf(new, sizeof new, "%s", to);
  mangle(old);
  mangle(new);
  DIR *folder = opendir(undo);
  if (!folder) abort();
  for (struct dirent *entry; (entry = readdir(folder));) {
    const char *rest = entry->d_name + strlen(old);
    if (strncmp(entry->d_name, old, strlen(old)) || (*rest && *rest != '%')) continue;
    snprintf(path, sizeof path, "%s/%s", undo, entry->d_name);
    snprintf(moved, sizeof moved, "%s/%s%s", undo, new, rest);
    if (REAL(int (*)(const char *, const char *), rename)(path, moved)) abort();
  }
  closedir(folder);
  snprintf(path, sizeof path, "%s/=%s", undo, new);
  int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0 || REAL(ssize_t (*)(int, const void *, size_t), write)(file, from, strlen(from)) < 0) abort();
  close(file);
}

int rename(const char *from, const char *to) {
  int result = REAL(int (*)(const char *, const char *), rename)(from, to);
  if (!result && undo && machine->part[0] && strstr(to, (const char *)machine->part)) keep_rename(from, to);
  return result;
}

/* A folder was synced: the renames in it are for good. */
static void forget_renames(int fd) {
  char parent[4096], path[8400];
  struct stat file;
  if (!undo || fstat(fd, &file) || !S_ISDIR(file.st_mode) || !path_of(fd, parent, sizeof parent)) return;
  mangle(parent);
  size_t length = strlen(parent);
  DIR *folder = opendir(undo);
  if (!folder) abort();
  for (struct dirent *entry; (entry = readdir(folder));) {
    const char *name = entry->d_name + 1;
    if (entry->d_name[0] != '=' || strncmp(name, parent, length) || name[length] != '%' || strchr(name + length + 1, '%'))
      continue;
    snprintf(path, sizeof path, "%s/%s", undo, entry->d_name);
    unlink(path);
  }
  closedir(folder);
}

static int sync_with(int fd, int (*real)(int)) {
  if (concerned(fd)) {
    wait_while(&machine->hold_syncs);
    if (machine->fail_syncs) {
      errno = (int)machine->fail_syncs;
      return -1;
    }
  }
  int result = real(fd);
  if (result == 0) {
    forget_undo(fd);
    forget_renames(fd);
    if (concerned(fd)) __atomic_add_fetch(&machine->syncs, 1, __ATOMIC_SEQ_CST);
  }
  return result;
}

int fsync(int fd) { return sync_with(fd, REAL(int (*)(int), fsync)); }
int fdatasync(int fd) { return sync_with(fd, REAL(int (*)(int), fdatasync)); }

/* Not used with the settings of this service: were it, its calls would have to be held and failed as well. */
int msync(void *at, size_t length, int flags) {
  (void)at, (void)length, (void)flags;
  fputs("faulty-machine: msync was called, which no test here expects\n", stderr);
  abort();
}

static int full(int fd) {
  if (!machine->fail_writes || !concerned(fd)) return 0;
  errno = (int)machine->fail_writes;
  return 1;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
  if (full(fd)) return -1;
  int durable = (fcntl(fd, F_GETFL) & O_DSYNC) != 0;
  int ours = durable && concerned(fd);
  if (ours) wait_while(&machine->hold_metas);
  if (!durable) keep_undo(fd, offset, length);
  ssize_t written = REAL(ssize_t (*)(int, const void *, size_t, off64_t), pwrite64)(fd, bytes, length, offset);
  if (ours && machine->fail_metas) {
    /* As where a disk fails: the page cache has the new bytes, the disk may not. */
    errno = (int)machine->fail_metas;
    return -1;
  }
  if (ours && written >= 0) __atomic_add_fetch(&machine->metas, 1, __ATOMIC_SEQ_CST);
  return written;
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) { return pwrite64(fd, bytes, length, offset); }

ssize_t write(int fd, const void *bytes, size_t length) {
  if (full(fd)) return -1;
  if (undo) keep_undo(fd, lseek(fd, 0, SEEK_CUR), length);
  return REAL(ssize_t (*)(int, const void *, size_t), write)(fd, bytes, length);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  if (full(fd)) return -1;
  size_t length = 0;
  for (int i = 0; i < count; i++) length += parts[i].iov_len;
  if (undo) keep_undo(fd, lseek(fd, 0, SEEK_CUR), length);
  return REAL(ssize_t (*)(int, const struct iovec *, int), writev)(fd, parts, count);
}

int ftruncate64(int fd, off64_t length) {
  if (full(fd)) return -1;
  return REAL(int (*)(int, off64_t), ftruncate64)(fd, length);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = REAL(int (*)(clockid_t, struct timespec *), clock_gettime);
  int result = real(clock, time);
  if (clock == CLOCK_REALTIME && machine->clock_ms) time->tv_sec += machine->clock_ms / 1000;
  return result;
}

int gettimeofday(struct timeval *time, void *zone) {
  static int (*real)(struct timeval *, void *);
  if (!real) real = REAL(int (*)(struct timeval *, void *), gettimeofday);
  int result = real(time, zone);
  if (machine->clock_ms) time->tv_sec += machine->clock_ms / 1000;
  return result;
}
