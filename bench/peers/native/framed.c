// The row in C: blocking sockets, 16 framed buffers of 32 KiB a call.
//
//   framed receive SECONDS          says where it listens, then what it measured
//   framed send SECONDS HOST:PORT   says what it measured
//
// Both open their window 0.3 s after the first work, and go on until they are stopped.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 32 << 10, HEAD = 8, BATCH = 16, WORDS = SIZE / 8 };
static const uint64_t want = 0x0123456789abcdef; // of each payload's words
static const double warm_up = 0.3;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static double cpu_seconds(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

// The window: count is called with each batch.
static const char *side;
static double length, opens, opened, cpu;
static int64_t frames, before;
static int done;

static void count(int n) {
  double now = seconds();
  frames += n;
  if (opens == 0) {
    opens = now + warm_up;
  } else if (opened == 0 && now >= opens) {
    opened = now;
    before = frames;
    cpu = cpu_seconds();
  } else if (opened != 0 && !done && now >= opened + length) {
    int64_t k = frames - before;
    done = 1;
    printf("RESULT {\"role\":\"%s\",\"seconds\":%.6f,\"bytes\":%lld,\"items\":%lld,\"cpu_s\":%.6f}\n", side, now - opened,
           (long long)k * SIZE, (long long)k, cpu_seconds() - cpu);
    fflush(stdout);
  }
}

static struct sockaddr_in loopback(int port) {
  struct sockaddr_in a;
  memset(&a, 0, sizeof a);
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}

static int accepted(void) {
  struct sockaddr_in a = loopback(0);
  socklen_t n = sizeof a;
  int l = socket(AF_INET, SOCK_STREAM, 0);
  if (l < 0 || bind(l, (struct sockaddr *)&a, n) || listen(l, 1) || getsockname(l, (struct sockaddr *)&a, &n)) fail("listen");
  printf("ADDR 127.0.0.1:%d\n", ntohs(a.sin_port));
  fflush(stdout);
  int fd = accept(l, 0, 0);
  if (fd < 0) fail("accept");
  return fd;
}

static int dialed(const char *addr) {
  const char *colon = strchr(addr, ':');
  struct sockaddr_in a = loopback(colon ? atoi(colon + 1) : 0);
  int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)) fail("connect");
  return fd;
}

static uint32_t heads[BATCH][2];
static uint64_t (*payloads)[WORDS];
static struct iovec parts[2 * BATCH];

static void describe(void) {
  for (int i = 0; i < BATCH; i++) {
    parts[2 * i] = (struct iovec){heads[i], HEAD};
    parts[2 * i + 1] = (struct iovec){payloads[i], SIZE};
  }
}

// move is writev or readv of all parts from the first on, and calls whole with the number of whole frames moved so far.
static void move(int fd, ssize_t (*call)(int, const struct iovec *, int), void (*whole)(int)) {
  describe();
  for (int first = 0; first < 2 * BATCH;) {
    ssize_t n = call(fd, parts + first, 2 * BATCH - first);
    if (n <= 0) fail("the other side");
    while (first < 2 * BATCH && (size_t)n >= parts[first].iov_len) n -= parts[first++].iov_len;
    if (first < 2 * BATCH) {
      parts[first].iov_base = (char *)parts[first].iov_base + n;
      parts[first].iov_len -= n;
    }
    whole(first / 2);
  }
}

static int checked; // of the batch under way

static void check(int whole) {
  for (; checked < whole; checked++) {
    uint64_t sum = 0;
    for (int i = 0; i < WORDS; i++) sum += payloads[checked][i];
    if (heads[checked][0] != SIZE || sum != want) {
      fprintf(stderr, "a frame of %u bytes with the sum %llx\n", heads[checked][0], (unsigned long long)sum);
      exit(1);
    }
  }
}

static void nothing(int whole) { (void)whole; }

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  side = argv[1];
  length = atof(argv[2]);
  payloads = aligned_alloc(4096, BATCH * SIZE);
  if (!payloads) fail("memory");
  if (!strcmp(side, "receive")) {
    for (int fd = accepted();;) {
      checked = 0;
      move(fd, readv, check);
      count(BATCH);
    }
  }
  if (argc < 4) return 2;
  srand48(3);
  for (int f = 0; f < BATCH; f++) {
    uint64_t sum = 0;
    for (int i = 0; i < WORDS - 1; i++) sum += payloads[f][i] = (uint64_t)mrand48() << 32 ^ (uint64_t)mrand48();
    payloads[f][WORDS - 1] = want - sum;
    heads[f][0] = SIZE;
  }
  for (int fd = dialed(argv[3]);;) {
    move(fd, writev, nothing);
    count(BATCH);
  }
}
