/* Reads the scenario file (nvml_stub.c describes it) and says what it shows now. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define MAX_GPUS 16
#define MAX_ROWS 1024
#define MAX_FAILURES 64
#define MAX_PROCESSES 64
#define MAX_CONDITIONS 32
#define MIB (1024ULL * 1024ULL)

typedef struct { unsigned pid; long long mib; int sm, instance; } Process;

/* Keys of an `at` line with NVML's GPM metric that each stands for. */
static const struct { const char *key; unsigned id; } gpm_keys[] = {
    {"gr", 1}, {"sm", 2}, {"occupancy", 3}, {"integer", 4}, {"tensor", 5}, {"dram", 10}, {"fp64", 11}, {"fp32", 12}, {"fp16", 13},
    {"pcie_tx", 20}, {"pcie_rx", 21}, {"nvlink_rx", 60}, {"nvlink_tx", 61},
};
#define GPM_KEYS ((int)(sizeof gpm_keys / sizeof *gpm_keys))

typedef struct {
    double from;
    int gpu, instance, util, memutil, clock, error, temp;
    double gpm[GPM_KEYS];
    long long mem, reserved, power_mw;
    unsigned long long throttle;
    Process processes[MAX_PROCESSES];
    int process_count;
    char when[1024];
} Row;

typedef struct { char key[32]; long long value; } Condition;

typedef struct {
    int present, major, minor, power_limit_w, mig, condition_count;
    long long memory_mib;
    char uuid[96], pci[32], name[96];
    Condition conditions[MAX_CONDITIONS];
} Gpu;

typedef struct { char function[96]; int code; double from, until; } Failure;

static struct {
    char driver[80], looks[1024];
    int cuda, wall, gpu_count, row_count, failure_count;
    double clock;
    Gpu gpus[MAX_GPUS];
    Row rows[MAX_ROWS];
    Failure failures[MAX_FAILURES];
} scenario;

static struct stat seen;

static void parse_processes(char *text, Row *row) {
    char *rest = NULL;
    for (char *item = strtok_r(text, ",", &rest); item && row->process_count < MAX_PROCESSES;
         item = strtok_r(NULL, ",", &rest)) {
        Process *process = &row->processes[row->process_count++];
        char *colon = strchr(item, ':');
        process->pid = item[0] == '@' ? 0 : (unsigned)strtoul(item, NULL, 10);
        process->mib = colon ? strtoll(colon + 1, NULL, 10) : 0;
        colon = colon ? strchr(colon + 1, ':') : NULL;
        process->sm = colon ? atoi(colon + 1) : -1;
        colon = colon ? strchr(colon + 1, ':') : NULL;
        process->instance = colon ? atoi(colon + 1) : -1;
    }
}

static void parse_gpm(const char *key, const char *value, Row *row) {
    for (int i = 0; i < GPM_KEYS; i++)
        if (!strcmp(gpm_keys[i].key, key)) row->gpm[i] = strtod(value, NULL);
}

static void parse_row(char *text) {
    if (scenario.row_count == MAX_ROWS) return;
    Row *row = &scenario.rows[scenario.row_count++];
    memset(row, 0, sizeof *row);
    row->power_mw = 30000;
    row->clock = 300;
    row->temp = 30;
    row->instance = -1;
    char *when = strstr(text, " when=");
    if (when) {
        *when = '\0';
        snprintf(row->when, sizeof row->when, "%s", when + strlen(" when="));
    }
    char *rest = NULL;
    char *word = strtok_r(text, " ", &rest);
    row->from = word ? strtod(word, NULL) : 0;
    word = strtok_r(NULL, " ", &rest);
    row->gpu = word ? atoi(word) : 0;
    while ((word = strtok_r(NULL, " ", &rest))) {
        char *value = strchr(word, '=');
        if (!value) continue;
        *value++ = '\0';
        if (!strcmp(word, "util")) row->util = atoi(value);
        else if (!strcmp(word, "memutil")) row->memutil = atoi(value);
        else if (!strcmp(word, "mem")) row->mem = strtoll(value, NULL, 10);
        else if (!strcmp(word, "reserved")) row->reserved = strtoll(value, NULL, 10);
        else if (!strcmp(word, "power")) row->power_mw = (long long)(strtod(value, NULL) * 1000);
        else if (!strcmp(word, "temp")) row->temp = atoi(value);
        else if (!strcmp(word, "clock")) row->clock = atoi(value);
        else if (!strcmp(word, "throttle")) row->throttle = strtoull(value, NULL, 0);
        else if (!strcmp(word, "error")) row->error = atoi(value);
        else if (!strcmp(word, "instance")) row->instance = atoi(value);
        else if (!strcmp(word, "procs")) parse_processes(value, row);
        else parse_gpm(word, value, row);
    }
}

static void parse_gpu(const char *text) {
    Gpu gpu = {.present = 1};
    int index = 0, used = 0;
    if (sscanf(text, "%d %lld %d %d %d %d %95s %31s %n", &index, &gpu.memory_mib, &gpu.major, &gpu.minor,
               &gpu.power_limit_w, &gpu.mig, gpu.uuid, gpu.pci, &used) < 8) return;
    if (index < 0 || index >= MAX_GPUS) return;
    snprintf(gpu.name, sizeof gpu.name, "%s", text + used);
    scenario.gpus[index] = gpu;
    if (index >= scenario.gpu_count) scenario.gpu_count = index + 1;
}

static void parse_health(char *text) {
    char *rest = NULL;
    char *word = strtok_r(text, " ", &rest);
    int index = word ? atoi(word) : -1;
    if (index < 0 || index >= MAX_GPUS) return;
    Gpu *gpu = &scenario.gpus[index];
    while ((word = strtok_r(NULL, " ", &rest)) && gpu->condition_count < MAX_CONDITIONS) {
        char *value = strchr(word, '=');
        if (!value) continue;
        *value++ = '\0';
        Condition *condition = &gpu->conditions[gpu->condition_count++];
        snprintf(condition->key, sizeof condition->key, "%s", word);
        condition->value = strtoll(value, NULL, 0);
    }
}

static void parse_failure(const char *text) {
    if (scenario.failure_count == MAX_FAILURES) return;
    Failure *failure = &scenario.failures[scenario.failure_count];
    failure->from = 0;
    failure->until = 1e18;
    if (sscanf(text, "%95s %d %lf %lf", failure->function, &failure->code, &failure->from, &failure->until) >= 2)
        scenario.failure_count++;
}

static void parse_line(char *line) {
    char *text = strchr(line, ' ');
    if (line[0] == '#' || !text) return;
    *text++ = '\0';
    if (!strcmp(line, "driver")) snprintf(scenario.driver, sizeof scenario.driver, "%s", text);
    else if (!strcmp(line, "cuda")) scenario.cuda = atoi(text);
    else if (!strcmp(line, "gpu")) parse_gpu(text);
    else if (!strcmp(line, "health")) parse_health(text);
    else if (!strcmp(line, "at")) parse_row(text);
    else if (!strcmp(line, "fail")) parse_failure(text);
    else if (!strcmp(line, "looks")) snprintf(scenario.looks, sizeof scenario.looks, "%s", text);
    else if (!strcmp(line, "clock")) {
        scenario.wall = !strncmp(text, "wall ", 5);
        scenario.clock = strtod(strchr(text, ' ') ? strchr(text, ' ') : "0", NULL);
    }
}

static void reload(void) {
    const char *path = getenv("GPUPROOF_NVML_STUB");
    struct stat now;
    if (!path || stat(path, &now)) return;
    if (now.st_ino == seen.st_ino && now.st_size == seen.st_size && now.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec) return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    memset(&scenario, 0, sizeof scenario);
    char line[4096];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        parse_line(line);
    }
    fclose(file);
    seen = now;
}

static double now_s(void) {
    if (!scenario.wall) return scenario.clock;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9 - scenario.clock;
}

static int alive(long pid) { return pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM); }

static int living_pids(const char *path, unsigned *pids, int room) {
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    int count = 0;
    long pid = 0;
    while (count < room && fscanf(file, "%ld", &pid) == 1)
        if (alive(pid)) pids[count++] = (unsigned)pid;
    fclose(file);
    return count;
}

static int failure_of(const char *function) {
    double now = now_s();
    for (int i = 0; i < scenario.failure_count; i++) {
        Failure *failure = &scenario.failures[i];
        int named = !strcmp(failure->function, function) ||
                    (!strcmp(failure->function, "*") && strncmp(function, "nvmlInit", 8));
        if (named && now >= failure->from && now < failure->until) return failure->code;
    }
    return 0;
}

static void count_look(void) {
    FILE *file = scenario.looks[0] ? fopen(scenario.looks, "a") : NULL;
    if (!file) return;
    fputc('.', file);
    fclose(file);
}

/* A condition of a GPU; -1 where the scenario does not name it, which stands for "not supported". */
static long long condition_of(int gpu, const char *key) {
    Gpu *found = &scenario.gpus[gpu];
    /* The last one counts. */
    for (int i = found->condition_count - 1; i >= 0; i--)
        if (!strcmp(found->conditions[i].key, key)) return found->conditions[i].value;
    return -1;
}

static const Row *row_at(int gpu, int instance, double now) {
    static const Row idle = {.power_mw = 30000, .clock = 300, .temp = 30, .instance = -1};
    const Row *found = &idle;
    double best = -1;
    unsigned pid;
    for (int i = 0; i < scenario.row_count; i++) {
        const Row *row = &scenario.rows[i];
        if (row->gpu != gpu || row->instance != instance || row->from > now || row->from < best) continue;
        if (row->when[0] && !living_pids(row->when, &pid, 1)) continue;
        best = row->from;
        found = row;
    }
    return found;
}

static const Row *row_of(int gpu) { return row_at(gpu, -1, now_s()); }

/* The NVML id of a GPU's MIG instance; ids begin with 1 unless the scenario says otherwise. */
static int instance_of(int gpu, int slot) {
    char key[32];
    snprintf(key, sizeof key, "instance%d", slot);
    long long id = condition_of(gpu, key);
    return id < 0 ? slot + 1 : (int)id;
}

static int processes_of(const Row *row, Process *out) {
    int count = 0;
    for (int i = 0; i < row->process_count; i++) {
        Process process = row->processes[i];
        if (process.pid) {
            out[count++] = process;
            continue;
        }
        unsigned pids[MAX_PROCESSES];
        int living = living_pids(row->when, pids, MAX_PROCESSES - count);
        for (int j = 0; j < living; j++) out[count++] = (Process){pids[j], process.mib, process.sm, process.instance};
    }
    return count;
}

#endif
