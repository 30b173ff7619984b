//go:build ignore

// A simulated nvidia-cuda-mps-control: the control daemon of MPS, and the program that talks to it. Same options, commands
// and answers as the real one as far as they are here; state in $CUDA_MPS_PIPE_DIRECTORY, log in $CUDA_MPS_LOG_DIRECTORY.
//
//   -f  daemon in the foreground      -d  daemon in the background      -v  version
//   without options: reads commands from stdin, one on a line
//
// As with the real one there is one server at a time, a process of the user of its clients, started by the first of
// them; another user's clients wait until it has none left. simulate_fault SERVER does what a client's bad kernel does.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "mps.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAME "nvidia-cuda-mps-control"
#define MAX_CLIENTS 60 // of a server, since CUDA 13.1
#define MAX_CONNECTIONS 1024

struct connection {
	int fd;
	pid_t pid;
	uid_t uid;
	size_t length;
	char line[256]; // what has come of the one line that it sends
	enum { READING, WAITING, CLIENT, ENDED } state; // ENDED: its server has, and it is dropped soon
};

static struct connection connections[MAX_CONNECTIONS];
static unsigned connection_count;
static struct sim_mps_limits defaults = {.percent = 10000};
static struct {
	pid_t pid; // 0: none
	uid_t uid;
	int fault;
	struct sim_mps_limits limits;
} server;
static FILE *log_file;
static char directory_path[4096];

static void note(const char *format, ...)
{
	char when[32];
	time_t now = time(NULL);
	struct tm tm;
	va_list args;
	if (!log_file)
		return;
	strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &tm));
	fprintf(log_file, "[%s Control %5d] (simulated) ", when, getpid());
	va_start(args, format);
	vfprintf(log_file, format, args);
	va_end(args);
	fputc('\n', log_file);
	fflush(log_file);
}

static int socket_at(int dir, int (*use)(int, const struct sockaddr *, socklen_t))
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" SIM_MPS_SOCKET, dir);
	if (fd >= 0 && use(fd, (struct sockaddr *)&address, sizeof address) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static int open_directory(void)
{
	const char *path = getenv("CUDA_MPS_PIPE_DIRECTORY");
	if (!path || !*path)
		path = SIM_MPS_DIRECTORY;
	snprintf(directory_path, sizeof directory_path, "%s", path);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

// ---- the server ----

static unsigned clients(void)
{
	unsigned n = 0;
	for (unsigned i = 0; i < connection_count; i++)
		n += connections[i].state == CLIENT;
	return n;
}

static int start_server(uid_t uid)
{
	pid_t daemon = getpid(), pid;
	int ready[2];
	char byte;
	if (pipe2(ready, O_CLOEXEC) != 0)
		return -1;
	if ((pid = fork()) < 0) {
		close(ready[0]);
		close(ready[1]);
		return -1;
	}
	if (pid == 0) {
		sigset_t none;
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		for (int fd = 3; fd < MAX_CONNECTIONS + 64; fd++)
			if (fd != ready[1])
				close(fd); // else it would keep the clients' connections open
		if (geteuid() == 0 && (setgid(uid == 0 ? 0 : uid) != 0 || setuid(uid) != 0))
			_exit(1);
		prctl(PR_SET_NAME, "nvidia-cuda-mps-server"); // of which the kernel keeps 15 characters
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != daemon || write(ready[1], "", 1) != 1)
			_exit(1);
		close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1) { // it has ended: reap() takes its status
		close(ready[0]);
		return -1;
	}
	close(ready[0]);
	server.pid = pid;
	server.uid = uid;
	server.fault = 0;
	server.limits = defaults;
	note("Started server %d for user %u", pid, uid);
	return 0;
}

static void drop(unsigned i)
{
	close(connections[i].fd);
	connections[i] = connections[--connection_count];
	if (server.fault && clients() == 0) {
		server.fault = 0;
		note("Server %d is ACTIVE again", server.pid);
	}
}

static void server_ended(void)
{
	note("Server %d has ended", server.pid);
	for (unsigned i = 0; i < connection_count; i++)
		if (connections[i].state == CLIENT)
			connections[i].state = ENDED;
	memset(&server, 0, sizeof server);
}

static void reap(void)
{
	pid_t pid;
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		if (pid == server.pid)
			server_ended();
}

static void stop_server(void)
{
	if (server.pid) {
		kill(server.pid, SIGKILL);
		waitpid(server.pid, NULL, 0);
		server_ended();
	}
}

// ---- clients ----

// Answers an attach. Returns 0 when the connection is to be dropped.
static int admit(struct connection *c)
{
	char answer[8192];
	int n;
	if (server.pid && server.uid != c->uid) {
		if (clients() > 0) {
			c->state = WAITING;
			return 1;
		}
		stop_server();
	}
	if (server.fault)
		n = snprintf(answer, sizeof answer, "error %d\n", SIM_MPS_SERVER_NOT_READY);
	else if (clients() >= MAX_CLIENTS)
		n = snprintf(answer, sizeof answer, "error %d\n", SIM_MPS_MAX_CLIENTS_REACHED);
	else if (!server.pid && start_server(c->uid) != 0)
		n = snprintf(answer, sizeof answer, "error %d\n", SIM_MPS_CONNECTION_FAILED);
	else {
		n = snprintf(answer, sizeof answer, "ok %u.%02u", server.limits.percent / 100, server.limits.percent % 100);
		for (unsigned i = 0; i < server.limits.count; i++)
			n += snprintf(answer + n, sizeof answer - (size_t)n, " %s=%lluM", server.limits.memory[i].device, server.limits.memory[i].mib);
		n += snprintf(answer + n, sizeof answer - (size_t)n, "\n");
		c->state = CLIENT;
		note("Client %d of user %u", c->pid, c->uid);
	}
	return send(c->fd, answer, (size_t)n, MSG_NOSIGNAL) == n && c->state == CLIENT;
}

static void admit_waiting(void)
{
	for (unsigned i = 0; i < connection_count;) {
		struct connection *c = &connections[i];
		if (c->state != WAITING || (server.pid && server.uid != c->uid && clients() > 0)) {
			i++;
			continue;
		}
		c->state = READING;
		if (admit(c))
			i++;
		else
			drop(i);
	}
}

static void tell_clients(char letter, pid_t only)
{
	for (unsigned i = 0; i < connection_count; i++)
		if (connections[i].state == CLIENT && (!only || connections[i].pid == only))
			send(connections[i].fd, &letter, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// ---- commands ----

static int quit;

// The words of a command; returns how many, at most 4.
static int split(char *line, char *word[4])
{
	int n = 0;
	char *save = NULL;
	for (char *w = strtok_r(line, " \t\r", &save); w && n < 4; w = strtok_r(NULL, " \t\r", &save))
		word[n++] = w;
	return n;
}

static int is_server(const char *word)
{
	char *end;
	long pid = strtol(word, &end, 10);
	return end != word && !*end && pid > 0 && pid == server.pid;
}

static void show_memory(FILE *out, const struct sim_mps_limits *l, const char *device)
{
	for (unsigned i = 0; i < l->count; i++)
		if (strcmp(l->memory[i].device, device) == 0)
			fprintf(out, "%lluM\n", l->memory[i].mib);
}

static void show_percent(FILE *out, const struct sim_mps_limits *l)
{
	fprintf(out, "%u.%u\n", l->percent / 100, l->percent / 10 % 10);
}

static void set_percent(FILE *out, struct sim_mps_limits *l, const char *text)
{
	if (sim_mps_parse_percent(text, &l->percent) != 0)
		fprintf(out, "Invalid active thread percentage %s\n", text);
	else
		show_percent(out, l);
}

static void set_memory(FILE *out, struct sim_mps_limits *l, const char *device, const char *value)
{
	if (sim_mps_set_memory(l, device, value) != 0)
		fprintf(out, "Invalid pinned memory limit %s for device %s\n", value, device);
}

static void list_clients(FILE *out)
{
	for (unsigned i = 0; i < connection_count; i++)
		if (connections[i].state == CLIENT)
			fprintf(out, "%d\n", connections[i].pid);
}

// What is said of one server: w[1] is its process id. Returns 0 when it is no such command.
static int server_command(FILE *out, char *w[4], int n)
{
	static const struct {
		const char *name;
		int words;
	} known[] = {
		{"get_server_status", 2}, {"get_client_list", 2}, {"shutdown_server", 2}, {"simulate_fault", 2},
		{"get_active_thread_percentage", 2}, {"set_active_thread_percentage", 3},
		{"get_device_pinned_mem_limit", 3}, {"set_device_pinned_mem_limit", 4}, {"terminate_client", 3},
	};
	unsigned i = 0;
	while (i < sizeof known / sizeof *known && (strcmp(w[0], known[i].name) != 0 || n != known[i].words))
		i++;
	if (i == sizeof known / sizeof *known)
		return 0;
	if (!is_server(w[1])) {
		fprintf(out, "Server %s not found\n", w[1]);
		return 1;
	}
	switch (i) {
	case 0: fprintf(out, "%s\n", server.fault ? "FAULT" : "ACTIVE"); break;
	case 1: list_clients(out); break;
	case 2: stop_server(); break;
	case 3:
		server.fault = clients() > 0;
		tell_clients('F', 0);
		note("Server %d is in FAULT", server.pid);
		break;
	case 4: show_percent(out, &server.limits); break;
	case 5: set_percent(out, &server.limits, w[2]); break;
	case 6: show_memory(out, &server.limits, w[2]); break;
	case 7: set_memory(out, &server.limits, w[2], w[3]); break;
	case 8: tell_clients('T', (pid_t)atoi(w[2])); break;
	}
	return 1;
}

static void command(FILE *out, char *line)
{
	char *w[4] = {""};
	int n = split(line, w);
	if (strcmp(w[0], "get_server_list") == 0 && n == 1) {
		if (server.pid)
			fprintf(out, "%d\n", server.pid);
	} else if (strcmp(w[0], "get_default_active_thread_percentage") == 0 && n == 1) {
		show_percent(out, &defaults);
	} else if (strcmp(w[0], "set_default_active_thread_percentage") == 0 && n == 2) {
		set_percent(out, &defaults, w[1]);
	} else if (strcmp(w[0], "get_default_device_pinned_mem_limit") == 0 && n == 2) {
		show_memory(out, &defaults, w[1]);
	} else if (strcmp(w[0], "set_default_device_pinned_mem_limit") == 0 && n == 3) {
		set_memory(out, &defaults, w[1], w[2]);
	} else if (strcmp(w[0], "quit") == 0 && n == 1) {
		quit = 1;
	} else if (!server_command(out, w, n)) {
		fprintf(out, "Unknown command: %s (simulated)\n", w[0]);
	}
}

// Takes what a connection has sent. Returns 0 when it is to be dropped.
static int hear(struct connection *c)
{
	char *end, *answer = NULL;
	size_t size = 0;
	FILE *out;
	ssize_t got;

	if (c->state != READING) { // a client that says something has ended
		char byte;
		return recv(c->fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
	}
	got = recv(c->fd, c->line + c->length, sizeof c->line - 1 - c->length, MSG_DONTWAIT);
	if (got <= 0)
		return got < 0 && errno == EAGAIN;
	c->length += (size_t)got;
	c->line[c->length] = 0;
	if (!(end = strchr(c->line, '\n')))
		return c->length + 1 < sizeof c->line;
	*end = 0;
	if (strcmp(c->line, "attach") == 0)
		return admit(c);
	// As with the real one: a socket that everyone can reach is for clients; commands are for the owner.
	if (c->uid != 0 && c->uid != geteuid()) {
		static const char denied[] = "Permission denied\n"; // with its NUL
		(void)!send(c->fd, denied, sizeof denied, MSG_NOSIGNAL);
		return 0;
	}
	note("Command %s from process %d", c->line, c->pid);
	if ((out = open_memstream(&answer, &size))) {
		command(out, c->line);
		fclose(out); // size is without the NUL behind it, which is sent, too: it says that the answer is whole
		for (size_t sent = 0; sent <= size; sent += (size_t)got)
			if ((got = send(c->fd, answer + sent, size + 1 - sent, MSG_NOSIGNAL)) < 0)
				break;
		free(answer);
	}
	return 0;
}

static void greet(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof peer;
	if (connection_count == MAX_CONNECTIONS || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
		close(fd);
		return;
	}
	connections[connection_count++] = (struct connection){.fd = fd, .pid = peer.pid, .uid = peer.uid};
}

// ---- the daemon ----

static int serve(int listener, int signals)
{
	static struct pollfd polls[MAX_CONNECTIONS + 2];
	while (!quit) {
		unsigned n = connection_count;
		polls[0] = (struct pollfd){.fd = listener, .events = POLLIN};
		polls[1] = (struct pollfd){.fd = signals, .events = POLLIN};
		for (unsigned i = 0; i < n; i++)
			polls[i + 2] = (struct pollfd){.fd = connections[i].fd, .events = POLLIN};
		if (poll(polls, n + 2, -1) < 0 && errno != EINTR)
			return 1;
		// From the end, for drop() moves the last one into the gap; who is new is behind n.
		for (unsigned i = n; i-- > 0;)
			if (polls[i + 2].revents && i < connection_count && connections[i].fd == polls[i + 2].fd && !hear(&connections[i]))
				drop(i);
		if (polls[1].revents) {
			struct signalfd_siginfo info;
			if (read(signals, &info, sizeof info) == sizeof info && info.ssi_signo != SIGCHLD)
				quit = 1;
			reap();
		}
		if (polls[0].revents) {
			int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
			if (fd >= 0)
				greet(fd);
		}
		for (unsigned i = connection_count; i-- > 0;)
			if (connections[i].state == ENDED)
				drop(i);
		admit_waiting();
	}
	note("Quit");
	stop_server();
	return 0;
}

static int daemon_main(int background)
{
	const char *log_directory = getenv("CUDA_MPS_LOG_DIRECTORY"), *text;
	char path[4200], number[16];
	int dir, pid_file, listener, n, ready[2] = {-1, -1};
	sigset_t mask;

	if ((text = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")) && *text && sim_mps_parse_percent(text, &defaults.percent) != 0) {
		fprintf(stderr, "simulated " NAME ": CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%s: want a number above 0, up to 100\n", text);
		return 1;
	}
	if ((text = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")) && *text && sim_mps_parse_list(text, &defaults) != 0) {
		fprintf(stderr, "simulated " NAME ": CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%s: want DEVICE=NUMBERG or DEVICE=NUMBERM, separated by commas\n", text);
		return 1;
	}
	if (background) {
		if (pipe2(ready, O_CLOEXEC) != 0)
			return 1;
		if (fork() > 0) {
			close(ready[1]);
			return read(ready[0], number, 1) == 1 ? 0 : 1;
		}
		close(ready[0]);
		setsid();
	}
	dir = open_directory();
	if (dir < 0 && mkdir(directory_path, 0755) == 0)
		dir = open_directory();
	if (dir < 0) {
		fprintf(stderr, "simulated " NAME ": %s: %s\n", directory_path, strerror(errno));
		return 1;
	}
	pid_file = openat(dir, NAME ".pid", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (pid_file < 0 || flock(pid_file, LOCK_EX | LOCK_NB) != 0) {
		fprintf(stderr, "An instance of this daemon is already running\n");
		return 1;
	}
	if (log_directory && *log_directory) {
		mkdir(log_directory, 0755);
		snprintf(path, sizeof path, "%s/control.log", log_directory);
		log_file = fopen(path, "ae");
	}
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	unlinkat(dir, SIM_MPS_SOCKET, 0); // of a daemon that was killed: ours is the only one, by the lock
	listener = socket_at(dir, bind);
	if (listener < 0 || fchmodat(dir, SIM_MPS_SOCKET, 0666, 0) != 0 || listen(listener, 128) != 0) {
		fprintf(stderr, "simulated " NAME ": %s/" SIM_MPS_SOCKET ": %s\n", directory_path, strerror(errno));
		return 1;
	}
	n = snprintf(number, sizeof number, "%d\n", getpid());
	if (ftruncate(pid_file, 0) != 0 || write(pid_file, number, (size_t)n) != n) {
		fprintf(stderr, "simulated " NAME ": write the process id: %s\n", strerror(errno));
		return 1;
	}
	note("Started; devices: %s", getenv("CUDA_VISIBLE_DEVICES") ? getenv("CUDA_VISIBLE_DEVICES") : "all");
	if (background && write(ready[1], "", 1) == 1)
		close(ready[1]);
	n = serve(listener, signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
	unlinkat(dir, SIM_MPS_SOCKET, 0);
	unlinkat(dir, NAME ".pid", 0);
	return n;
}

// ---- the program that sends commands ----

// Sends one command and prints the answer. Returns 0, or -1 where no daemon gives a whole one: a connection that just
// ends is one to a daemon that has died.
static int send_command(int dir, const char *line)
{
	char answer[4096];
	ssize_t got;
	int fd = dir < 0 ? -1 : socket_at(dir, connect), whole = 0;
	if (fd < 0)
		return -1;
	if (send(fd, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line))
		while (!whole && (got = read(fd, answer, sizeof answer)) > 0) {
			whole = answer[got - 1] == 0;
			fwrite(answer, 1, (size_t)(got - whole), stdout);
		}
	close(fd);
	return whole ? 0 : -1;
}

static int client_main(void)
{
	char line[256];
	int dir = open_directory();
	while (fgets(line, sizeof line, stdin)) {
		if (!strchr(line, '\n'))
			strcat(line, strlen(line) + 1 < sizeof line ? "\n" : "");
		if (line[strspn(line, " \t\n")] && send_command(dir, line) != 0) {
			printf("Cannot find MPS control daemon process\n");
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 1)
		return client_main();
	if (argc == 2 && strcmp(argv[1], "-f") == 0)
		return daemon_main(0);
	if (argc == 2 && strcmp(argv[1], "-d") == 0)
		return daemon_main(1);
	if (argc == 2 && strcmp(argv[1], "-v") == 0) {
		printf("CUDA MPS Control Version: 13000 (simulated)\n");
		return 0;
	}
	fprintf(stderr, "usage: " NAME " [-f | -d | -v]   (simulated; without options it reads commands from stdin)\n");
	return 1;
}
