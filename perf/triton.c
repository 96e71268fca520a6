/* SPDX-License-Identifier: BSD-3-Clause
 * A plain Triton matrix product as a provider of the kernel level: triton-matmul.py in a process of
 * its own, which makes its own random data on the device, times itself by device events and checks
 * itself. kernel.c gives it its turns. Where python3, torch or triton is missing, the answer says
 * so. */
#include "perf.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRITON_WAIT_MS = 90000 }; /* the first case loads torch and compiles */

static struct {
    bool started;
    pid_t pid;
    FILE *to, *from;
    char why[160];
} triton;

static void triton_script(char *path, size_t bytes)
{
    const ssize_t n = readlink("/proc/self/exe", path, bytes - 40);
    path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(path, '/');
    strcpy(slash ? slash + 1 : path, "rungs/triton-matmul.py");
}

static void triton_child(const char *script, int in, int out)
{
    const bool ready = dup2(in, 0) == 0 && dup2(out, 1) == 1;
    for (int fd = 3; fd < 256;
         fd++) /* other workers wait for the end of pipes that are open here */
        close(fd);
    if (ready)
        execlp("python3", "python3", script, "--worker", (char *)NULL);
    _exit(127);
}

static void triton_start(void)
{
    char script[4096];
    int in[2], out[2];
    triton.started = true;
    triton_script(script, sizeof script);
    snprintf(triton.why, sizeof triton.why, "python3 does not start");
    if (access(script, R_OK) != 0) {
        snprintf(triton.why, sizeof triton.why,
                 "rungs/triton-matmul.py is not beside the bench (make perf)");
        return;
    }
    if (pipe(in) != 0)
        return;
    if (pipe(out) != 0) {
        close(in[0]);
        close(in[1]);
        return;
    }
    signal(SIGPIPE, SIG_IGN);
    triton.pid = fork();
    if (triton.pid == 0) {
        close(in[1]);
        close(out[0]);
        triton_child(script, in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    if (triton.pid > 0) {
        triton.to = fdopen(in[1], "w");
        triton.from = fdopen(out[0], "r");
    } else {
        close(in[1]);
        close(out[0]);
    }
    if (triton.to)
        setvbuf(triton.to, NULL, _IOLBF, 0);
}

void triton_close(void)
{
    if (triton.to)
        fclose(triton.to);
    if (triton.from)
        fclose(triton.from);
    triton.to = triton.from = NULL;
    if (triton.pid > 0) {
        kill(triton.pid, SIGTERM);
        waitpid(triton.pid, NULL, 0);
    }
    triton.pid = 0;
}

/* One line there, one back: "ok ...", "absent WHY", "missing WHY" or "failed WHY". */
void triton_ask(const char *line, char *answer, size_t bytes)
{
    if (!triton.started)
        triton_start();
    if (triton.to && triton.from && fprintf(triton.to, "%s\n", line) > 0) {
        struct pollfd ready = {fileno(triton.from), POLLIN, 0};
        if (poll(&ready, 1, TRITON_WAIT_MS) == 1 && fgets(answer, (int)bytes, triton.from)) {
            answer[strcspn(answer, "\n")] = 0;
            if (strncmp(answer, "missing", 7) == 0) {
                snprintf(triton.why, sizeof triton.why, "%.150s", answer + 8);
                triton_close();
            }
            return;
        }
        snprintf(triton.why, sizeof triton.why, "python3 ended or does not answer");
        triton_close();
        snprintf(answer, bytes, "failed %s", triton.why);
        return;
    }
    snprintf(answer, bytes, "missing %s", triton.why);
}
