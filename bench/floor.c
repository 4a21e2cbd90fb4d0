/* The floor of the benchmarks: a client that sends recorded requests and reads the replies, and does nothing else.
 *
 *   floor PORT SCRIPT CONNECTIONS WARM PASSES
 *
 * SCRIPT comes from `script.py`: bytes that the requests share, then for each request what stands before them, how many of
 * them it has, and what stands behind. A pass sends all requests in order over one connection, each after the reply to the
 * one before. Every connection makes WARM passes, then PASSES that are measured. One connection is driven by blocking
 * calls and each request of a long pass is measured, several are driven by epoll. Prints one line of JSON.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES = 1024, EVENTS = 512, REPLY = 16384 };

struct frame {
    char *head, *tail;
    size_t head_length, shared_length, tail_length;
};

struct connection {
    int fd;
    size_t frame, sent, length;
    unsigned passes_left;
    char reply[REPLY];
};

static struct frame frames[FRAMES];
static double frame_cpu_us[FRAMES];
static size_t frame_count;
static char *shared;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static double cpu_us(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Largest resident size of this program, in KiB. Not ru_maxrss: that one begins with the size of the forking process. */
static long peak_kb(void) {
    char line[256];
    long peak = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (file == NULL) die("/proc/self/status");
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmHWM: %ld", &peak) == 1) break;
    fclose(file);
    return peak;
}

static double wall_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static char *read_bytes(FILE *file, size_t length) {
    char *bytes = malloc(length + 1);
    if (bytes == NULL || fread(bytes, 1, length, file) != length) die("script");
    return bytes;
}

static void read_script(const char *path) {
    FILE *file = fopen(path, "rb");
    uint32_t shared_length, lengths[3];
    if (file == NULL || fread(&shared_length, sizeof shared_length, 1, file) != 1) die(path);
    shared = read_bytes(file, shared_length);
    while (frame_count < FRAMES && fread(lengths, sizeof lengths, 1, file) == 1) {
        struct frame *frame = &frames[frame_count++];
        frame->head_length = lengths[0];
        frame->shared_length = lengths[1];
        frame->tail_length = lengths[2];
        frame->head = read_bytes(file, frame->head_length);
        frame->tail = read_bytes(file, frame->tail_length);
    }
    fclose(file);
}

static int connect_to(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

/* The part of the current frame's slice that is not sent yet. */
static struct iovec rest_of(char *slice, size_t length, size_t start, size_t sent) {
    size_t skip = sent <= start ? 0 : sent - start < length ? sent - start : length;
    return (struct iovec){slice + skip, length - skip};
}

/* Sends what the socket takes of the current frame: all of it on a blocking one. */
static void send_frame(struct connection *connection) {
    const struct frame *frame = &frames[connection->frame];
    size_t shared_end = frame->head_length + frame->shared_length, length = shared_end + frame->tail_length;
    while (connection->sent < length) {
        struct iovec slices[] = {
            rest_of(frame->head, frame->head_length, 0, connection->sent),
            rest_of(shared, frame->shared_length, frame->head_length, connection->sent),
            rest_of(frame->tail, frame->tail_length, shared_end, connection->sent),
        };
        struct msghdr message = {.msg_iov = slices, .msg_iovlen = frame->shared_length == 0 ? 1 : 3};
        ssize_t sent = sendmsg(connection->fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) return;
        if (sent < 0) die("send");
        connection->sent += (size_t)sent;
    }
}

/* Of a stream only the head and the last bytes are kept: enough to see where it ends. */
static int is_stream_over(struct connection *connection, const char *end) {
    static const char last[] = "\r\n0\r\n\r\n";
    size_t head = (size_t)(end + 4 - connection->reply), size = sizeof last - 1;
    int is_over = connection->length >= head + size &&
                  memcmp(connection->reply + connection->length - size, last, size) == 0;
    if (connection->length > head + size) {
        memmove(connection->reply + head, connection->reply + connection->length - size, size);
        connection->length = head + size;
    }
    return is_over;
}

/* Reads once; whether the reply is complete now. */
static int read_reply(struct connection *connection) {
    ssize_t got = recv(connection->fd, connection->reply + connection->length, REPLY - 1 - connection->length, 0);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) die("recv");
    connection->length += (size_t)got;
    connection->reply[connection->length] = 0;
    const char *end = memmem(connection->reply, connection->length, "\r\n\r\n", 4);
    const char *header = strcasestr(connection->reply, "content-length:");
    if (end != NULL && strcasestr(connection->reply, "transfer-encoding:") != NULL)
        return is_stream_over(connection, end);
    if (end == NULL || header == NULL) return 0;
    return connection->length >= (size_t)(end + 4 - connection->reply) + strtoul(header + 15, NULL, 10);
}

/* Goes on to the next frame; whether there is one. */
static int advance(struct connection *connection) {
    connection->sent = connection->length = 0;
    connection->frame = (connection->frame + 1) % frame_count;
    if (connection->frame == 0) connection->passes_left--;
    return connection->passes_left > 0;
}

static void drive_one(struct connection *connection) {
    int many = frame_count > 2; /* looking at the clock would be felt in a short pass */
    do {
        double *turn = &frame_cpu_us[connection->frame];
        if (many) *turn -= cpu_us();
        send_frame(connection);
        while (!read_reply(connection)) {
        }
        if (many) *turn += cpu_us();
    } while (advance(connection));
}

static void drive_all(struct connection *connections, size_t count, int poller) {
    struct epoll_event events[EVENTS];
    size_t busy = count;
    for (size_t at = 0; at < count; at++) send_frame(&connections[at]);
    while (busy > 0) {
        int ready = epoll_wait(poller, events, EVENTS, -1);
        for (int at = 0; at < ready; at++) {
            struct connection *connection = events[at].data.ptr;
            if (!read_reply(connection)) continue;
            if (advance(connection))
                send_frame(connection); /* these frames are small: an empty socket buffer takes them whole */
            else
                busy--;
        }
    }
}

static void drive(struct connection *connections, size_t count, unsigned passes, int poller) {
    for (size_t at = 0; at < count; at++) connections[at].passes_left = passes;
    if (passes == 0) return;
    if (count == 1)
        drive_one(connections);
    else
        drive_all(connections, count, poller);
}

int main(int argument_count, char **arguments) {
    if (argument_count != 6) {
        fprintf(stderr, "usage: floor PORT SCRIPT CONNECTIONS WARM PASSES\n");
        return 2;
    }
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    read_script(arguments[2]);
    size_t count = strtoul(arguments[3], NULL, 10);
    unsigned warm = (unsigned)strtoul(arguments[4], NULL, 10), passes = (unsigned)strtoul(arguments[5], NULL, 10);
    struct connection *connections = calloc(count, sizeof *connections);
    int poller = epoll_create1(EPOLL_CLOEXEC);
    if (connections == NULL || poller < 0) die("setup");
    for (size_t at = 0; at < count; at++) {
        connections[at].fd = connect_to(atoi(arguments[1]));
        if (count == 1) continue;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[at]};
        int nonblocking = 1;
        if (ioctl(connections[at].fd, FIONBIO, &nonblocking) < 0) die("ioctl");
        if (epoll_ctl(poller, EPOLL_CTL_ADD, connections[at].fd, &event) < 0) die("epoll_ctl");
    }
    drive(connections, count, warm, poller);
    memset(frame_cpu_us, 0, sizeof frame_cpu_us);
    double cpu = cpu_us(), wall = wall_s();
    drive(connections, count, passes, poller);
    cpu = cpu_us() - cpu;
    wall = wall_s() - wall;
    double operations = (double)passes * (double)count;
    printf("{\"cpu_us\": %.2f, \"per_second\": %.1f, \"peak_kb\": %ld, \"turn_us\": [", cpu / operations,
           operations / wall, peak_kb());
    for (size_t at = 0; at < frame_count; at++) printf("%s%.1f", at == 0 ? "" : ", ", frame_cpu_us[at] / operations);
    printf("]}\n");
    return 0;
}
