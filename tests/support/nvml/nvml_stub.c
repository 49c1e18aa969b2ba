/* A libnvidia-ml.so.1 without a GPU: the real pynvml loads it, a text file says what it shows.
 *
 * GPUPROOF_NVML_STUB names the scenario file. It is read again whenever it changes, so a test moves time or state by
 * rewriting it (nvml_stub.py does both). One statement a line; `#` begins a comment line:
 *
 *   driver VERSION
 *   cuda NUMBER                              CUDA version of the driver, 12040 is 12.4
 *   clock fixed SECONDS | clock wall EPOCH   the scenario's time: a number, or the time since EPOCH
 *   fail FUNCTION CODE [FROM [UNTIL]]        FUNCTION (`*` is every one but init) returns CODE in that time
 *   looks PATH                               gets a byte each time that GPU 0's utilization is asked for
 *   gpu INDEX MEMORY_MIB MAJOR MINOR POWER_LIMIT_W MIG UUID PCI NAME...
 *   health INDEX KEY=VALUE...                after the GPU's own line; what is not named is "not supported"
 *   at SECONDS INDEX [KEY=VALUE...] [when=PATH]
 *
 * Keys of `health`: ecc, ecc_volatile, ecc_corrected, ecc_aggregate, sram_worn, remapped, remap_pending, remap_failed, pages_pending,
 * width, width_max, generation, generation_max, persistence, mig_pending, mig_instances, fabric (NVML's state),
 * fabric_status, compute_mode, power_default (W), max_clock (MHz), cores, gpm (1: performance counters), pcie (1: PCIe throughput),
 * instance0 (NVML's id of MIG instance 0; 1 if not named), instance1 and so on.
 *
 * The last `at` line whose time has come is a GPU's whole state. Keys: util, memutil (percent), mem, reserved (MiB),
 * power (W), temp (degrees Celsius; negative: not supported), clock (MHz), throttle (bit mask, 0x..), error (NVML code: every call for this GPU fails with it), procs
 * (PID:MIB[:SM_PERCENT[:MIG_INSTANCE]],...; MIB -1: not available), and the performance counters gr, sm, occupancy, integer, tensor,
 * dram, fp64, fp32, fp16 (percent; negative: not supported), pcie_tx, pcie_rx, nvlink_tx, nvlink_rx (MiB/s), whose means between
 * two samples GPM returns. With `instance=ID`, a line has the counters of a MIG instance only. An `at` line with `when=PATH` counts only while PATH holds the
 * id of at least one living process; `procs=@:MIB[:SM]` then lists those. PATH runs to the end of the line.
 */
#include "scenario.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9
};

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } ProcessInfo;
typedef struct { unsigned pid; unsigned long long time; unsigned sm, mem, enc, dec; } ProcessSample;
typedef struct { unsigned version; int sensor, temperature; } Temperature;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } PciInfo;

static int initialised;

/* A handle is the index plus one, so that NULL is never a GPU. */
static int index_of(void *handle) { return (int)((size_t)handle & 0xff) - 1; }

/* The handle of a MIG instance has its slot plus one in the next byte; -1 for a whole GPU. */
static int slot_of(void *handle) { return (int)((size_t)handle >> 8) - 1; }

static int begin(const char *function) {
    reload();
    return initialised ? failure_of(function) : UNINITIALIZED;
}

static int begin_gpu(const char *function, void *handle, const Row **row) {
    int code = begin(function);
    if (code) return code;
    int gpu = index_of(handle);
    if (gpu < 0 || gpu >= scenario.gpu_count || !scenario.gpus[gpu].present) return INVALID_ARGUMENT;
    *row = row_of(gpu);
    return (*row)->error;
}

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!getenv("GPUPROOF_NVML_STUB")) return DRIVER_NOT_LOADED;
    reload();
    int code = failure_of("nvmlInit");
    if (!code) initialised++;
    return code;
}

EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

EXPORT int nvmlShutdown(void) {
    if (!initialised) return UNINITIALIZED;
    initialised--;
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(int code) {
    (void)code;
    return "an error of the stub";
}

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    int code = begin(__func__);
    if (!code) snprintf(out, size, "%s", scenario.driver);
    return code;
}

EXPORT int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    int code = begin(__func__);
    if (!code) snprintf(out, size, "%d.%s", scenario.cuda / 1000, scenario.driver);
    return code;
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    int code = begin(__func__);
    if (!code) *out = scenario.cuda;
    return code;
}

EXPORT int nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

EXPORT int nvmlDeviceGetCount_v2(unsigned *out) {
    int code = begin(__func__);
    if (!code) *out = (unsigned)scenario.gpu_count;
    return code;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) {
    const Row *row;
    *out = (void *)(size_t)(index + 1);
    return begin_gpu(__func__, *out, &row);
}

EXPORT int nvmlDeviceGetName(void *gpu, char *out, unsigned size) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (!code) snprintf(out, size, "%s", scenario.gpus[index_of(gpu)].name);
    return code;
}

EXPORT int nvmlDeviceGetUUID(void *gpu, char *out, unsigned size) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (!code) snprintf(out, size, "%s", scenario.gpus[index_of(gpu)].uuid);
    return code;
}

EXPORT int nvmlDeviceGetMinorNumber(void *gpu, unsigned *out) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (!code) *out = (unsigned)index_of(gpu);
    return code;
}

EXPORT int nvmlDeviceGetPciInfo_v3(void *gpu, PciInfo *out) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (code) return code;
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "%s", scenario.gpus[index_of(gpu)].pci);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetCudaComputeCapability(void *gpu, int *major, int *minor) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (code) return code;
    *major = scenario.gpus[index_of(gpu)].major;
    *minor = scenario.gpus[index_of(gpu)].minor;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(void *gpu, unsigned *out) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (!code) *out = (unsigned)scenario.gpus[index_of(gpu)].power_limit_w * 1000;
    return code;
}

EXPORT int nvmlDeviceGetMigMode(void *gpu, unsigned *current, unsigned *pending) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (code) return code;
    int mig = scenario.gpus[index_of(gpu)].mig;
    if (mig < 0) return NOT_SUPPORTED;
    long long after_reset = condition_of(index_of(gpu), "mig_pending");
    *current = (unsigned)mig;
    *pending = after_reset < 0 ? (unsigned)mig : (unsigned)after_reset;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(void *gpu, MemoryV2 *out) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (code) return code;
    out->total = (unsigned long long)scenario.gpus[index_of(gpu)].memory_mib * MIB;
    out->reserved = (unsigned long long)row->reserved * MIB;
    out->used = (unsigned long long)row->mem * MIB;
    out->free = out->total - out->reserved - out->used;
    return SUCCESS;
}

/* The first version counts what the driver reserves as used. */
EXPORT int nvmlDeviceGetMemoryInfo(void *gpu, Memory *out) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (code) return code;
    out->total = (unsigned long long)scenario.gpus[index_of(gpu)].memory_mib * MIB;
    out->used = (unsigned long long)(row->mem + row->reserved) * MIB;
    out->free = out->total - out->used;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetUtilizationRates(void *gpu, Utilization *out) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (index_of(gpu) == 0) count_look();
    if (code) return code;
    out->gpu = (unsigned)row->util;
    out->memory = (unsigned)row->memutil;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetPowerUsage(void *gpu, unsigned *out) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (!code) *out = (unsigned)row->power_mw;
    return code;
}

EXPORT int nvmlDeviceGetTemperature(void *gpu, int sensor, unsigned *out) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (code) return code;
    if (sensor != 0) return INVALID_ARGUMENT;
    if (row->temp < 0) return NOT_SUPPORTED;
    *out = (unsigned)row->temp;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetTemperatureV(void *gpu, Temperature *out) {
    unsigned read = 0;
    int code = nvmlDeviceGetTemperature(gpu, out->sensor, &read);
    if (!code) out->temperature = (int)read;
    return code;
}

EXPORT int nvmlDeviceGetClockInfo(void *gpu, int type, unsigned *out) {
    const Row *row;
    (void)type;
    int code = begin_gpu(__func__, gpu, &row);
    if (!code) *out = (unsigned)row->clock;
    return code;
}

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *out) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (!code) *out = row->throttle;
    return code;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *count, ProcessInfo *out) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (code) return code;
    Process processes[MAX_PROCESSES];
    unsigned found = (unsigned)processes_of(row, processes);
    int fits = found == 0 || (out && *count >= found);
    *count = found;
    if (!fits) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < found; i++)
        out[i] = (ProcessInfo){processes[i].pid,
                               processes[i].mib < 0 ? ~0ULL : (unsigned long long)processes[i].mib * MIB,
                               (unsigned)processes[i].instance, ~0U};
    return SUCCESS;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(void *gpu, unsigned *count, ProcessInfo *out) {
    return nvmlDeviceGetComputeRunningProcesses_v3(gpu, count, out);
}

EXPORT int nvmlDeviceGetProcessUtilization(void *gpu, ProcessSample *out, unsigned *count,
                                           unsigned long long since) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (code) return code;
    Process processes[MAX_PROCESSES];
    unsigned listed = (unsigned)processes_of(row, processes), found = 0;
    for (unsigned i = 0; i < listed; i++)
        if (processes[i].sm >= 0) processes[found++] = processes[i];
    if (!found) return NOT_FOUND;
    int fits = out && *count >= found;
    *count = found;
    if (!fits) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < found; i++)
        out[i] = (ProcessSample){processes[i].pid, since + 1, (unsigned)processes[i].sm, 0, 0, 0};
    return SUCCESS;
}

#include "health.h"
#include "gpm.h"
