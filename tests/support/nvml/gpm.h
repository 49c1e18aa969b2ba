/* Performance counters (GPM) of a GPU and of its MIG instances, its highest clock and its PCIe throughput. */

#include <math.h>

#define VERSION_MISMATCH 25
#define WHOLE_GPU (-1)

typedef struct { unsigned version, supported; } GpmSupport;
typedef struct { const char *short_name, *long_name, *unit; } GpmMetricInfo;
typedef struct { unsigned id; int code; double value; GpmMetricInfo info; } GpmMetric;
typedef struct { int filled, gpu, instance; double time; } GpmSample;
typedef struct { unsigned version, count; GpmSample *first, *second; GpmMetric metrics[]; } GpmRequest;

static int gpm_samples;

/* Stub only: how many samples are allocated. */
EXPORT int stubGpmSamples(void) { return gpm_samples; }

static double gpm_value(const Row *row, unsigned id) {
    for (int i = 0; i < GPM_KEYS; i++)
        if (gpm_keys[i].id == id) return row->gpm[i];
    return NAN;
}

/* The mean over the time between two samples; NaN for an empty interval. */
static double gpm_mean(const GpmSample *first, const GpmSample *second, unsigned id) {
    double sum = 0;
    for (double t = first->time; t < second->time;) {
        double next = second->time;
        for (int i = 0; i < scenario.row_count; i++) {
            double from = scenario.rows[i].from;
            if (from > t && from < next) next = from;
        }
        sum += (next - t) * gpm_value(row_at(first->gpu, first->instance, t), id);
        t = next;
    }
    return sum / (second->time - first->time);
}

static int gpm_sample(const char *function, void *gpu, int instance, GpmSample *out) {
    const Row *row;
    int code = begin_gpu(function, gpu, &row);
    if (code) return code;
    if (!out) return INVALID_ARGUMENT;
    if (condition_of(index_of(gpu), "gpm") < 1) return NOT_SUPPORTED;
    *out = (GpmSample){1, index_of(gpu), instance, now_s()};
    return SUCCESS;
}

EXPORT int nvmlGpmQueryDeviceSupport(void *gpu, GpmSupport *out) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (code) return code;
    if (out->version != 1) return VERSION_MISMATCH;
    out->supported = condition_of(index_of(gpu), "gpm") > 0;
    return SUCCESS;
}

EXPORT int nvmlGpmSampleAlloc(GpmSample **out) {
    int code = begin(__func__);
    if (code) return code;
    *out = calloc(1, sizeof **out);
    gpm_samples++;
    return SUCCESS;
}

EXPORT int nvmlGpmSampleFree(GpmSample *sample) {
    int code = begin(__func__);
    if (code) return code;
    free(sample);
    gpm_samples--;
    return SUCCESS;
}

EXPORT int nvmlGpmSampleGet(void *gpu, GpmSample *out) { return gpm_sample(__func__, gpu, WHOLE_GPU, out); }

EXPORT int nvmlGpmMigSampleGet(void *gpu, unsigned instance, GpmSample *out) {
    return gpm_sample(__func__, gpu, (int)instance, out);
}

EXPORT int nvmlGpmMetricsGet(GpmRequest *request) {
    int code = begin(__func__);
    if (code) return code;
    if (request->version != 1) return VERSION_MISMATCH;
    const GpmSample *first = request->first, *second = request->second;
    if (!first || !second || !first->filled || !second->filled || first->gpu != second->gpu ||
        first->instance != second->instance) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < request->count; i++) {
        GpmMetric *metric = &request->metrics[i];
        metric->value = gpm_mean(first, second, metric->id);
        metric->code = metric->value < 0 ? NOT_SUPPORTED : SUCCESS;
        if (metric->code) metric->value = 50; /* what a caller must not read */
    }
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMaxClockInfo(void *gpu, int type, unsigned *out) {
    (void)type;
    return ask(__func__, gpu, "max_clock", out);
}

EXPORT int nvmlDeviceGetNumGpuCores(void *gpu, unsigned *out) { return ask(__func__, gpu, "cores", out); }

/* KB/s; a real driver takes 20 ms for each call. */
EXPORT int nvmlDeviceGetPcieThroughput(void *gpu, int counter, unsigned *out) {
    const Row *row;
    int code = begin_gpu(__func__, gpu, &row);
    if (code) return code;
    if (condition_of(index_of(gpu), "pcie") < 1) return NOT_SUPPORTED;
    *out = (unsigned)(gpm_value(row, counter ? 21 : 20) * 1024);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstanceId(void *mig, unsigned *out) {
    const Row *row;
    int code = begin_gpu(__func__, mig, &row);
    if (code) return code;
    if (slot_of(mig) < 0) return INVALID_ARGUMENT;
    *out = (unsigned)instance_of(index_of(mig), slot_of(mig));
    return SUCCESS;
}
