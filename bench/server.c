/* The model server of the benchmarks: Chat Completions over HTTP/1.1 with keep-alive, one thread, epoll.
 * It owns the replies and the latency. It parses no JSON: the first segment of the path names the scenario, and the last
 * "role" and "tool_call_id" of the body say how far the conversation is.
 *
 *   server LATENCY_MS [RECORD]
 * Prints its port and serves until it is killed or its parent dies. With RECORD every request is appended to that file as
 * a 32-bit length and the raw bytes, so that a floor can send exactly what a client sent.
 *   /tool/...   a call of `add`, then a text
 *   /relay/...  a call of `read_file`, then a text
 *   /long/...   200 calls of `step` with 1 KB of arguments, then a text
 *
 * And streamed, each event in a chunk and a write of its own:
 *   /chunks/... a text in 500 pieces
 *   /pieces/... a call of `keep` with 800 KB of arguments in 40,000 pieces, then a text
 *   /event/...  a text of 5 MB in one piece
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 200, ARGUMENT_BYTES = 1000, EVENTS = 512, CONNECTIONS = 1 << 16 };
enum { CHUNKS = 500, PIECES = 40000, EVENT_BYTES = 5 << 20 };

struct reply {
    char *bytes;
    size_t length, capacity;
    size_t *ends; /* where the writes of a stream end; of anything else there is one */
    size_t writes;
};

struct connection {
    int fd;
    char *input;
    size_t length, capacity;
    size_t expected; /* whole size of the request that is coming in; 0 while its head is incomplete */
    const struct reply *reply; /* what is sent when the latency is over */
};

struct delayed {
    struct connection *connection;
    uint64_t due;
};

static void die(const char *what) {
    perror(what);
    exit(1);
}

static struct delayed queue[CONNECTIONS]; /* first in, first out: the latency is the same for all */
static size_t queue_head, queue_tail;
static struct reply text_reply, tool_reply, relay_reply, long_replies[TURNS + 1];
static struct reply text_stream, chunks_stream, pieces_stream, event_stream;
static FILE *record;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct reply respond(const char *message, const char *finish) {
    char *body;
    struct reply reply = {0};
    if (asprintf(&body,
                 "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1760000000,\"model\":\"bench\","
                 "\"choices\":[{\"index\":0,\"message\":%s,\"logprobs\":null,\"finish_reason\":\"%s\"}],"
                 "\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":24,\"total_tokens\":144}}",
                 message, finish) < 0 ||
        asprintf(&reply.bytes,
                 "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: req-bench\r\n"
                 "content-length: %zu\r\n\r\n%s",
                 strlen(body), body) < 0)
        die("asprintf");
    free(body);
    reply.length = strlen(reply.bytes);
    return reply;
}

static struct reply respond_call(const char *id, const char *name, const char *arguments) {
    char *message;
    if (asprintf(&message,
                 "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"%s\",\"type\":\"function\","
                 "\"function\":{\"name\":\"%s\",\"arguments\":\"%s\"}}]}",
                 id, name, arguments) < 0)
        die("asprintf");
    struct reply reply = respond(message, "tool_calls");
    free(message);
    return reply;
}

static void append(struct reply *stream, const char *bytes, size_t length) {
    if (stream->length + length > stream->capacity) {
        stream->capacity = 2 * stream->capacity + length;
        if ((stream->bytes = realloc(stream->bytes, stream->capacity)) == NULL) die("realloc");
    }
    memcpy(stream->bytes + stream->length, bytes, length);
    stream->length += length;
}

static void end_write(struct reply *stream) {
    if (stream->writes % 1024 == 0) {
        stream->ends = realloc(stream->ends, (stream->writes + 1024) * sizeof *stream->ends);
        if (stream->ends == NULL) die("realloc");
    }
    stream->ends[stream->writes++] = stream->length;
}

static void begin_stream(struct reply *stream) {
    static const char head[] = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: req-bench\r\n"
                               "transfer-encoding: chunked\r\n\r\n";
    append(stream, head, sizeof head - 1);
    end_write(stream);
}

static void push_event(struct reply *stream, const char *data) {
    char size[32];
    size_t length = strlen(data);
    append(stream, size, (size_t)snprintf(size, sizeof size, "%zx\r\ndata: ", length + 8));
    append(stream, data, length);
    append(stream, "\n\n\r\n", 4);
    end_write(stream);
}

static void push_delta(struct reply *stream, const char *delta, const char *finish) {
    char *data;
    if (asprintf(&data,
                 "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,"
                 "\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":%s,\"logprobs\":null,\"finish_reason\":%s}]}",
                 delta, finish) < 0)
        die("asprintf");
    push_event(stream, data);
    free(data);
}

static void push_text(struct reply *stream, const char *text, size_t length) {
    char *delta;
    if (asprintf(&delta, "{\"content\":\"%.*s\"}", (int)length, text) < 0) die("asprintf");
    push_delta(stream, delta, "null");
    free(delta);
}

static void end_stream(struct reply *stream, const char *finish) {
    push_delta(stream, "{}", finish);
    push_event(stream, "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{"
                       "\"prompt_tokens\":120,\"completion_tokens\":24,\"total_tokens\":144}}");
    push_event(stream, "[DONE]");
    append(stream, "0\r\n\r\n", 5);
    end_write(stream);
}

static void prepare_streams(void) {
    static const char text[] = "The work is done.";
    begin_stream(&text_stream);
    push_text(&text_stream, text, sizeof text - 1);
    end_stream(&text_stream, "\"stop\"");

    begin_stream(&chunks_stream);
    for (int at = 0; at < CHUNKS; at++) push_text(&chunks_stream, "word ", 5);
    end_stream(&chunks_stream, "\"stop\"");

    begin_stream(&pieces_stream);
    push_delta(&pieces_stream,
               "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"index\":0,\"id\":\"call_keep_1\","
               "\"type\":\"function\",\"function\":{\"name\":\"keep\",\"arguments\":\"{\\\"note\\\": \\\"\"}}]}",
               "null");
    for (int at = 0; at < PIECES; at++)
        push_delta(&pieces_stream,
                   "{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"twenty more letters,\"}}]}", "null");
    push_delta(&pieces_stream, "{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"}\"}}]}", "null");
    end_stream(&pieces_stream, "\"tool_calls\"");

    char *large = malloc(EVENT_BYTES);
    if (large == NULL) die("malloc");
    memset(large, 'x', EVENT_BYTES);
    begin_stream(&event_stream);
    push_text(&event_stream, large, EVENT_BYTES);
    end_stream(&event_stream, "\"stop\"");
    free(large);
}

static void prepare_replies(void) {
    static const char sentence[] = "The step reads the ledger, adds one line to it and reports what it saw. ";
    text_reply = respond("{\"role\":\"assistant\",\"content\":\"The work is done.\"}", "stop");
    tool_reply = respond_call("call_add_1", "add", "{\\\"a\\\": 2, \\\"b\\\": 3}");
    relay_reply = respond_call("call_relay_1", "read_file", "{\\\"path\\\": \\\"notes/today.txt\\\"}");
    char note[ARGUMENT_BYTES];
    for (size_t at = 0; at < sizeof note; at++) note[at] = sentence[at % (sizeof sentence - 1)];
    for (int turn = 1; turn <= TURNS; turn++) {
        char id[32], arguments[ARGUMENT_BYTES + 64];
        snprintf(id, sizeof id, "call_%d", turn);
        snprintf(arguments, sizeof arguments, "{\\\"number\\\": %d, \\\"note\\\": \\\"%.*s\\\"}", turn,
                 ARGUMENT_BYTES - 32, note);
        long_replies[turn] = respond_call(id, "step", arguments);
    }
}

/* The last `needle` of the body, looked for from its end: what matters stands in the last message. */
static const char *find_last(const char *body, size_t length, const char *needle) {
    size_t size = strlen(needle);
    const char *end = body + length;
    while (end > body) {
        const char *quote = memrchr(body, '"', (size_t)(end - body));
        if (quote == NULL) return NULL;
        if ((size_t)(body + length - quote) >= size && memcmp(quote, needle, size) == 0) return quote;
        end = quote;
    }
    return NULL;
}

static int is_scenario(const char *path, const char *name) {
    return path != NULL && strncmp(path, name, strlen(name)) == 0;
}

static const struct reply *choose_reply(const struct connection *connection, const char *body, size_t length) {
    const char *path = memchr(connection->input, '/', connection->length);
    const char *role = find_last(body, length, "\"role\"");
    int after_tool = role != NULL && strncmp(role + 6 + strspn(role + 6, ": "), "\"tool\"", 6) == 0;
    if (is_scenario(path, "/long/")) {
        const char *id = after_tool ? find_last(body, length, "\"tool_call_id\"") : NULL;
        const char *number = id == NULL ? NULL : strpbrk(id, "0123456789");
        int turn = number == NULL ? 0 : atoi(number);
        return turn < TURNS ? &long_replies[turn + 1] : &text_reply;
    }
    if (is_scenario(path, "/chunks/")) return &chunks_stream;
    if (is_scenario(path, "/event/")) return &event_stream;
    if (is_scenario(path, "/pieces/")) return after_tool ? &text_stream : &pieces_stream;
    if (after_tool) return &text_reply;
    return is_scenario(path, "/relay/") ? &relay_reply : &tool_reply;
}

/* Whether all of it was sent: a client that has left is reported by its socket on the next read. */
static int send_bytes(int fd, const char *at, size_t left) {
    while (left > 0) {
        ssize_t sent = send(fd, at, left, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            struct pollfd writable = {.fd = fd, .events = POLLOUT};
            poll(&writable, 1, -1);
        } else if (sent < 0) {
            return 0;
        } else {
            at += sent;
            left -= (size_t)sent;
        }
    }
    return 1;
}

static void send_reply(struct connection *connection) {
    const struct reply *reply = connection->reply;
    size_t start = 0, writes = reply->ends == NULL ? 1 : reply->writes;
    for (size_t at = 0; at < writes; at++) {
        size_t end = reply->ends == NULL ? reply->length : reply->ends[at];
        if (!send_bytes(connection->fd, reply->bytes + start, end - start)) break;
        start = end;
    }
    connection->reply = NULL;
}

/* Size of the whole request once its head is there. */
static size_t measure_request(const struct connection *connection) {
    const char *end = memmem(connection->input, connection->length, "\r\n\r\n", 4);
    if (end == NULL) return 0;
    size_t body = 0;
    for (const char *line = connection->input; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end + 2 - line));
        if (strncasecmp(line, "content-length:", 15) == 0) body = strtoul(line + 15, NULL, 10);
        if (next == NULL) break;
        line = next + 1;
    }
    return (size_t)(end + 4 - connection->input) + body;
}

static void reserve(struct connection *connection, size_t capacity) {
    if (connection->capacity >= capacity) return;
    connection->input = realloc(connection->input, capacity);
    if (connection->input == NULL) die("realloc");
    connection->capacity = capacity;
}

static void take_request(struct connection *connection, uint64_t latency) {
    size_t size = connection->expected;
    const char *body = (const char *)memmem(connection->input, size, "\r\n\r\n", 4) + 4;
    connection->reply = choose_reply(connection, body, (size_t)(connection->input + size - body));
    if (record != NULL) {
        uint32_t length = (uint32_t)size;
        fwrite(&length, sizeof length, 1, record);
        fwrite(connection->input, 1, size, record);
        fflush(record);
    }
    connection->length = 0;
    connection->expected = 0;
    if (latency == 0) {
        send_reply(connection);
    } else {
        queue[queue_tail++ % CONNECTIONS] = (struct delayed){connection, now_ns() + latency};
    }
}

/* The events of one wait hold pointers, so a closed connection must not come up again in them: epoll reports each
 * socket once per wait, and closing takes it out. */
static void close_connection(struct connection *connection) {
    for (size_t at = queue_head; at != queue_tail; at++)
        if (queue[at % CONNECTIONS].connection == connection) queue[at % CONNECTIONS].connection = NULL;
    close(connection->fd);
    free(connection->input);
    free(connection);
}

static void read_input(struct connection *connection, uint64_t latency) {
    for (;;) {
        size_t room = connection->capacity - 1 - connection->length;
        ssize_t got = recv(connection->fd, connection->input + connection->length, room, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (got <= 0) return close_connection(connection);
        connection->length += (size_t)got;
        connection->input[connection->length] = 0;
        if (connection->expected == 0) {
            connection->expected = measure_request(connection);
            reserve(connection, connection->expected + 1);
        }
        if (connection->expected != 0 && connection->length >= connection->expected)
            return take_request(connection, latency); /* no client here pipelines: the input ends with the request */
        if ((size_t)got < room) return;
        if (connection->expected == 0) reserve(connection, connection->capacity * 2);
    }
}

static int listen_on_loopback(void) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 4096) < 0)
        die("listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

static void accept_all(int listener, int poller) {
    int fd, on = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct connection *connection = calloc(1, sizeof *connection);
        if (connection == NULL) die("calloc");
        connection->fd = fd;
        reserve(connection, 16384);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) < 0) die("epoll_ctl");
    }
}

/* Sends what is due; milliseconds to the next one, rounded up, or -1. */
static int send_due(void) {
    uint64_t now = now_ns();
    for (; queue_head != queue_tail; queue_head++) {
        struct delayed *first = &queue[queue_head % CONNECTIONS];
        if (first->due > now) return (int)((first->due - now + 999999) / 1000000);
        if (first->connection != NULL) send_reply(first->connection);
    }
    return -1;
}

int main(int count, char **arguments) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    uint64_t latency = count > 1 ? strtoul(arguments[1], NULL, 10) * 1000000u : 0;
    if (count > 2 && (record = fopen(arguments[2], "wb")) == NULL) die(arguments[2]);
    prepare_replies();
    prepare_streams();
    int listener = listen_on_loopback(), poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event events[EVENTS], event = {.events = EPOLLIN, .data.ptr = NULL};
    if (poller < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event) < 0) die("epoll");
    for (;;) {
        int ready = epoll_wait(poller, events, EVENTS, send_due());
        for (int at = 0; at < ready; at++) {
            if (events[at].data.ptr == NULL)
                accept_all(listener, poller);
            else
                read_input(events[at].data.ptr, latency);
        }
    }
}
