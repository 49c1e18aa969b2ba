/* A libcuda.so.1 without a GPU, driven by a text file that GPUPROOF_CUDA_STUB names. One statement a line:
 *
 *   version NUMBER                          what cuDriverGetVersion gives; 12040 is 12.4
 *   init CODE                               what cuInit returns
 *   device MAJOR MINOR MEMORY_MIB NAME...   a GPU
 *   fail FUNCTION CODE                      FUNCTION returns CODE
 *   crash FUNCTION                          FUNCTION ends the process with SIGSEGV
 *   hang FUNCTION                           FUNCTION never returns
 *   wrong                                   the kernel's answer is wrong
 *
 * Device memory is host memory, and the one kernel that it knows is the sum of two vectors: whatever module is loaded,
 * its function `add` computes out[i] = a[i] + b[i] from (float *out, float *a, float *b, int n); others do nothing. Memory
 * of another process is memory of its own. `cuda-core` works with it: streams do nothing, and what it lacks is not supported.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_DEVICES 16

typedef struct { int major, minor; size_t memory; char name[128]; } Device;

static struct {
    int version, init, count, wrong, read;
    Device devices[MAX_DEVICES];
} stub;

static FILE *scenario(void) {
    const char *path = getenv("GPUPROOF_CUDA_STUB");
    return path ? fopen(path, "r") : NULL;
}

static void load(void) {
    if (stub.read) return;
    stub.read = 1;
    stub.version = 12040;
    FILE *file = scenario();
    if (!file) { stub.init = 100; return; }
    char line[512];
    while (fgets(line, sizeof line, file)) {
        Device *device = &stub.devices[stub.count];
        unsigned long long mib;
        if (sscanf(line, "version %d", &stub.version) == 1) continue;
        if (sscanf(line, "init %d", &stub.init) == 1) continue;
        if (!strncmp(line, "wrong", 5)) stub.wrong = 1;
        if (stub.count < MAX_DEVICES &&
            sscanf(line, "device %d %d %llu %127[^\n]", &device->major, &device->minor, &mib, device->name) == 4) {
            device->memory = (size_t)mib << 20;
            stub.count++;
        }
    }
    fclose(file);
}

/* Does what the scenario says of a function; gives the code that it is to return. */
static int begin(const char *function) {
    load();
    FILE *file = scenario();
    if (!file) return 0;
    char line[512], word[16], name[96];
    int found = 0, code = 0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%15s %95s %d", word, name, &code) < 2 || strcmp(name, function)) continue;
        if (!strcmp(word, "crash")) raise(SIGSEGV);
        if (!strcmp(word, "hang")) for (;;) pause();
        if (!strcmp(word, "fail")) found = code;
    }
    fclose(file);
    return found;
}

EXPORT int cuInit(unsigned flags) { (void)flags; int code = begin(__func__); return code ? code : stub.init; }

EXPORT int cuDriverGetVersion(int *out) { int code = begin(__func__); *out = stub.version; return code; }

EXPORT int cuDeviceGetCount(int *out) { int code = begin(__func__); *out = stub.count; return code; }

EXPORT int cuDeviceGet(int *out, int index) { *out = index; return begin(__func__); }

EXPORT int cuDeviceGetName(char *out, int size, int device) {
    snprintf(out, (size_t)size, "%s", stub.devices[device].name);
    return begin(__func__);
}

EXPORT int cuDeviceTotalMem_v2(size_t *out, int device) { *out = stub.devices[device].memory; return begin(__func__); }

EXPORT int cuDeviceGetAttribute(int *out, int attribute, int device) {
    *out = attribute == 75 ? stub.devices[device].major : attribute == 76 ? stub.devices[device].minor : 0;
    return begin(__func__);
}

EXPORT int cuCtxCreate_v2(void **out, unsigned flags, int device) {
    (void)flags; (void)device; *out = &stub; return begin(__func__);
}
EXPORT int cuDevicePrimaryCtxRetain(void **out, int device) { (void)device; *out = &stub; return begin(__func__); }
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return 0; }
EXPORT int cuCtxSetCurrent(void *context) { (void)context; return begin(__func__); }
EXPORT int cuCtxDestroy_v2(void *context) { (void)context; return 0; }
EXPORT int cuCtxSynchronize(void) { return begin(__func__); }
EXPORT int cuModuleLoadData(void **out, const void *image) {
    *out = &stub;
    return image ? begin(__func__) : 1;
}
EXPORT int cuModuleGetFunction(void **out, void *module, const char *name) {
    (void)module; *out = strcmp(name, "add") ? (void *)begin : &stub; return begin(__func__);
}
EXPORT int cuMemAlloc_v2(void **out, size_t size) { *out = malloc(size); return begin(__func__); }
EXPORT int cuMemFree_v2(void *memory) { free(memory); return 0; }
EXPORT int cuMemcpyHtoD_v2(void *to, const void *from, size_t size) { memcpy(to, from, size); return begin(__func__); }
EXPORT int cuMemcpyDtoH_v2(void *to, const void *from, size_t size) { memcpy(to, from, size); return begin(__func__); }
EXPORT int cuMemAllocHost_v2(void **out, size_t size) { *out = malloc(size); return begin(__func__); }
EXPORT int cuMemsetD8_v2(void *to, unsigned char value, size_t count) { memset(to, value, count); return begin(__func__); }
EXPORT int cuMemsetD32_v2(unsigned *to, unsigned value, size_t count) {
    while (count--) to[count] = value;
    return begin(__func__);
}

typedef struct { char reserved[64]; } IpcHandle;

EXPORT int cuIpcGetMemHandle(IpcHandle *out, void *memory) { (void)memory; memset(out, 0, sizeof *out); return begin(__func__); }
EXPORT int cuIpcOpenMemHandle_v2(void **out, IpcHandle handle, unsigned flags) {
    (void)handle; (void)flags; *out = calloc(1, 4096); return begin(__func__);
}

EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **parameters, void **extra) {
    (void)gy; (void)gz; (void)by; (void)bz; (void)shared; (void)stream; (void)extra;
    int code = begin(__func__);
    if (code || function != &stub) return code;
    float *out = *(float **)parameters[0], *a = *(float **)parameters[1], *b = *(float **)parameters[2];
    int n = *(int *)parameters[3];
    for (int i = 0; i < n && i < (int)(gx * bx); i++) out[i] = stub.wrong && i == n / 2 ? 0 : a[i] + b[i];
    return 0;
}

typedef struct { unsigned gx, gy, gz, bx, by, bz, shared; void *stream, *attributes; unsigned count; } LaunchConfig;

EXPORT int cuLaunchKernelEx(const LaunchConfig *config, void *function, void **parameters, void **extra) {
    return cuLaunchKernel(function, config->gx, config->gy, config->gz, config->bx, config->by, config->bz, config->shared,
                          config->stream, parameters, extra);
}
EXPORT int cuLibraryLoadData(void **out, const void *image, int *jit, void **jit_values, unsigned jit_count, int *options,
                             void **values, unsigned count) {
    (void)jit; (void)jit_values; (void)jit_count; (void)options; (void)values; (void)count;
    return cuModuleLoadData(out, image);
}
EXPORT int cuLibraryGetKernel(void **out, void *library, const char *name) { return cuModuleGetFunction(out, library, name); }
EXPORT int cuLibraryUnload(void *library) { (void)library; return 0; }
EXPORT int cuCtxGetCurrent(void **out) { *out = &stub; return begin(__func__); }
EXPORT int cuCtxGetDevice(int *out) { *out = 0; return begin(__func__); }
EXPORT int cuCtxGetStreamPriorityRange(int *least, int *greatest) { *least = *greatest = 0; return begin(__func__); }
EXPORT int cuStreamCreateWithPriority(void **out, unsigned flags, int priority) {
    (void)flags; (void)priority; *out = &stub; return begin(__func__);
}
EXPORT int cuStreamSynchronize(void *stream) { (void)stream; return begin(__func__); }
EXPORT int cuStreamDestroy_v2(void *stream) { (void)stream; return 0; }
EXPORT int cuGetErrorName(int code, const char **out) { (void)code; *out = "CUDA_ERROR_OF_THE_STUB"; return 0; }
EXPORT int cuGetErrorString(int code, const char **out) { (void)code; *out = "an error of the stub"; return 0; }

/* NVRTC asks for a table of functions that are documented nowhere. */
EXPORT int cuGetExportTable(const void **out, const void *id) { (void)id; *out = NULL; return 500; }

static int not_supported(void) { return 801; }

EXPORT int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags, int *status) {
    (void)version; (void)flags;
    static void *self;
    Dl_info here;
    if (!self && dladdr((void *)cuGetProcAddress_v2, &here)) self = dlopen(here.dli_fname, RTLD_LAZY);
    char newer[128];
    snprintf(newer, sizeof newer, "%s_v2", name);
    *out = self ? dlsym(self, newer) : NULL;
    if (!*out && self) *out = dlsym(self, name);
    if (!*out) *out = (void *)not_supported;
    if (status) *status = 0;
    return 0;
}
