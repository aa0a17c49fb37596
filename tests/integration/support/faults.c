/* Runs a program, and lets one system call of it fail, or kills it there.

   faults REPORT AT EVERY WHAT CALLS PROGRAM [ARGUMENT]...

   The calls that count are those that CALLS names (with commas between them), made by any thread. Number AT
   (from 0), and with EVERY > 0 each EVERY'th from there on, fails with the error number WHAT; `kill` and `int`
   send SIGKILL and SIGINT instead, `stop` answers 0 (a read finds the end). The file REPORT gets the names of all
   calls that counted, one a line. The exit status is the program's, or 128 and the signal that ended it; 120
   if the system does not allow it.

   The system asks this process before each call (seccomp's notifications), so no call is missed, whether a
   library makes it or not, and nothing is changed in the program. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define REFUSED 120

static const struct call { const char *name; int number; } CALLS[] = {
#define CALL(name) {#name, SYS_##name}
    CALL(openat), CALL(read), CALL(pread64), CALL(readv), CALL(write), CALL(pwrite64), CALL(writev),
    CALL(mmap), CALL(munmap), CALL(mprotect), CALL(madvise), CALL(brk), CALL(fstat), CALL(newfstatat),
    CALL(statx), CALL(lseek), CALL(fallocate), CALL(ftruncate), CALL(rename), CALL(renameat), CALL(renameat2),
    CALL(unlink), CALL(unlinkat), CALL(flock), CALL(fcntl), CALL(clone3), CALL(clone), CALL(fstatfs),
    CALL(sched_getaffinity), CALL(readlink), CALL(readlinkat), CALL(getcwd), CALL(ioctl), CALL(pipe2), CALL(close), CALL(futex),
    CALL(rt_sigaction), CALL(sigaltstack), CALL(getrandom), CALL(prlimit64), CALL(close_range), CALL(stat),
    CALL(lstat), CALL(open), CALL(access), CALL(copy_file_range), CALL(fchmod), CALL(umask),
};
#define COUNT (sizeof CALLS / sizeof *CALLS)

static int listed(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; (at = strstr(at, name)); at += length)
    if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length]))
      return 1;
  return 0;
}

/* A filter that asks about the listed calls, and its other end. */
static int listen_to(const char *list) {
  struct sock_filter code[COUNT * 2 + 4];
  int n = 0;
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < COUNT; i++)
    if (listed(list, CALLS[i].name)) {
      code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALLS[i].number, 0, 1);
      code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    }
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {n, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* Sends a descriptor through a socket, or receives one. */
static int pass(int socket, int descriptor) {
  char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec data = {&byte, 1};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  if (descriptor < 0) {
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
      return -1;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    return descriptor;
  }
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  return sendmsg(socket, &message, 0) == 1 ? 0 : -1;
}

int main(int argc, char **argv) {
  if (argc < 7)
    return REFUSED;
  FILE *report = fopen(argv[1], "we");
  long at = atol(argv[2]), every = atol(argv[3]), number = 0;
  const char *what = argv[4], *list = argv[5];
  int ends[2];
  if (!report || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
    return REFUSED;
  pid_t child = fork();
  if (child == 0) {
    /* The listener's number must not be one that the program would find in use. */
    int listener = listen_to(list);
    if (listener < 0 || pass(ends[1], listener))
      _exit(REFUSED);
    execv(argv[6], argv + 6);
    _exit(REFUSED);
  }
  close(ends[1]);
  int listener = pass(ends[0], -1);
  while (listener >= 0) {
    struct pollfd wait = {listener, POLLIN, 0};
    if (poll(&wait, 1, -1) < 0 || !(wait.revents & POLLIN))
      break;
    struct seccomp_notif request = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request))
      continue;
    for (size_t i = 0; i < COUNT; i++)
      if (CALLS[i].number == request.data.nr)
        fprintf(report, "%s\n", CALLS[i].name);
    struct seccomp_notif_resp response = {request.id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    if (number == at || (every > 0 && number > at && (number - at) % every == 0)) {
      if (!strcmp(what, "kill") || !strcmp(what, "int")) {
        kill(child, *what == 'k' ? SIGKILL : SIGINT);
      } else {
        response.flags = 0;
        response.error = strcmp(what, "stop") ? -atoi(what) : 0;
      }
    }
    number++;
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
  }
  fclose(report);
  int status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
