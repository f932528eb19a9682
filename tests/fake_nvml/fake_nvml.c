/* A fake libnvidia-ml.so.1 for tests: the calls that NVIDIA's Python binding makes, answered from a scenario file.
 *
 * FAKE_NVML_SCENARIO names the file; it is read again on every call. Each line is a key and a value:
 *
 *   count 2                          GPUs
 *   driver 580.95.05
 *   generation 1                     handles of an earlier generation are stale: INVALID_ARGUMENT
 *   total.0 97887                    MiB; free.N, reserved.N, used.N likewise (used: total - free unless given)
 *   free.0 NA                        NVML's "not available", 2^64 - 1
 *   timeline.0 0:9000,1500:2430      free MiB from so many milliseconds after the file's `epoch` (monotonic ms)
 *   error.FUNCTION 9                 every call of it fails with this code; error.FUNCTION.0 for GPU 0 only
 *   latency.FUNCTION 2000            microseconds; latency.FUNCTION.0 likewise
 *   hang.FUNCTION 1                  never returns
 *   segv.FUNCTION 1                  dereferences null
 *   noise.FUNCTION 1                 prints to stdout, as a library that misbehaves
 *
 * FUNCTION is the C name without "nvml". FAKE_NVML_LOG names a file that gets one line for each call:
 * monotonic µs, function, GPU (-1 for none). */

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };
#define MIB (1ULL << 20)
#define NOT_AVAILABLE (~0ULL)

static char text[65536];
static int sessions;

static u64 now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (u64)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void read_scenario(void) {
    const char *path = getenv("FAKE_NVML_SCENARIO");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[size < 0 ? 0 : size] = 0;
}

/* The value of `key` up to its line's end, or NULL. */
static const char *value_of(const char *key) {
    size_t length = strlen(key);
    for (const char *line = text; line && *line; line = (line = strchr(line, '\n')) ? line + 1 : NULL)
        if (!strncmp(line, key, length) && line[length] == ' ') return line + length + 1;
    return NULL;
}

/* "name.what" or "name.what.gpu"; the one for a GPU wins. */
static const char *setting(const char *name, const char *what, int gpu) {
    char key[160];
    if (gpu >= 0) {
        snprintf(key, sizeof key, "%s.%s.%d", name, what, gpu);
        const char *found = value_of(key);
        if (found) return found;
    }
    snprintf(key, sizeof key, "%s.%s", name, what);
    return value_of(key);
}

static u64 number(const char *name, int gpu, u64 otherwise) {
    char key[160];
    snprintf(key, sizeof key, gpu >= 0 ? "%s.%d" : "%s", name, gpu);
    const char *found = value_of(key);
    if (!found) return otherwise;
    return strncmp(found, "NA", 2) ? strtoull(found, NULL, 0) : NOT_AVAILABLE;
}

static void word(const char *name, int gpu, const char *otherwise, char *out, u32 size) {
    char key[160];
    snprintf(key, sizeof key, gpu >= 0 ? "%s.%d" : "%s", name, gpu);
    const char *found = value_of(key);
    if (!found) found = otherwise;
    snprintf(out, size, "%.*s", (int)strcspn(found, "\n"), found);
}

/* What every call does first: log, read the scenario, misbehave if told to. Returns the code to return, if any. */
static int enter(const char *function, int gpu) {
    const char *log = getenv("FAKE_NVML_LOG"), *found;
    if (log) {
        char line[160];
        int length = snprintf(line, sizeof line, "%llu %s %d\n", now_us(), function, gpu);
        int fd = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0 && write(fd, line, length) < 0) { /* the test will miss the line */ }
        if (fd >= 0) close(fd);
    }
    read_scenario();
    if (setting("noise", function, gpu)) puts("NVML: a line that nobody asked for"), fflush(stdout);
    if ((found = setting("latency", function, gpu))) usleep(strtoul(found, NULL, 0));
    if (setting("hang", function, gpu)) for (;;) pause();
    if (setting("segv", function, gpu)) *(volatile int *)0 = 1;
    return (found = setting("error", function, gpu)) ? atoi(found) : OK;
}

#define ENTER(function, gpu)                    \
    do {                                        \
        int code = enter(function, gpu);        \
        if (code) return code;                  \
        if (!sessions) return UNINITIALIZED;    \
    } while (0)

/* A handle carries the index of its GPU and the generation it was taken in. */
static void *handle_of(int gpu) { return (void *)(uintptr_t)((number("generation", -1, 1) << 8) + gpu + 1); }
static int gpu_of(void *handle) { return (int)((uintptr_t)handle & 0xff) - 1; }

#define ENTER_GPU(function)                                     \
    int gpu = gpu_of(handle);                                   \
    ENTER(function, gpu);                                       \
    if (handle != handle_of(gpu)) return INVALID_ARGUMENT

int nvmlInitWithFlags(u32 flags) {
    (void)flags;
    int code = enter("InitWithFlags", -1);
    if (!code) sessions++;
    return code;
}

int nvmlShutdown(void) {
    ENTER("Shutdown", -1);
    sessions--;
    return OK;
}

const char *nvmlErrorString(int code) {
    static char words[40];
    snprintf(words, sizeof words, "fake error %d", code);
    return words;
}

int nvmlSystemGetDriverVersion(char *out, u32 size) {
    ENTER("SystemGetDriverVersion", -1);
    word("driver", -1, "580.95.05", out, size);
    return OK;
}

int nvmlDeviceGetCount_v2(u32 *count) {
    ENTER("DeviceGetCount", -1);
    *count = number("count", -1, 2);
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(u32 index, void **handle) {
    ENTER("DeviceGetHandleByIndex", (int)index);
    if (index >= number("count", -1, 2)) return INVALID_ARGUMENT;
    *handle = handle_of(index);
    return OK;
}

static void uuid_of(int gpu, char *out, u32 size) {
    char otherwise[64];
    snprintf(otherwise, sizeof otherwise, "GPU-%08d-fa4e-4000-8000-00000000000%d", gpu + 1, gpu);
    word("uuid", gpu, otherwise, out, size);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    ENTER("DeviceGetHandleByUUID", -1);
    char each[96];
    for (int gpu = 0; gpu < (int)number("count", -1, 2); gpu++) {
        uuid_of(gpu, each, sizeof each);
        if (strcmp(each, uuid)) continue;
        const char *failure = setting("error", "DeviceGetHandleByUUID", gpu);
        if (failure) return atoi(failure);
        *handle = handle_of(gpu);
        return OK;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(void *handle, char *out, u32 size) {
    ENTER_GPU("DeviceGetUUID");
    uuid_of(gpu, out, size);
    return OK;
}

int nvmlDeviceGetName(void *handle, char *out, u32 size) {
    ENTER_GPU("DeviceGetName");
    word("name", gpu, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", out, size);
    return OK;
}

struct pci_info {
    char bus_id_legacy[16];
    u32 domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

int nvmlDeviceGetPciInfo_v3(void *handle, struct pci_info *out) {
    ENTER_GPU("DeviceGetPciInfo");
    memset(out, 0, sizeof *out);
    out->bus = gpu + 1;
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", gpu + 1);
    return OK;
}

int nvmlDeviceGetMigMode(void *handle, u32 *current, u32 *pending) {
    ENTER_GPU("DeviceGetMigMode");
    if (number("mig", gpu, NOT_AVAILABLE) == NOT_AVAILABLE) return NOT_SUPPORTED;
    *current = *pending = number("mig", gpu, 0);
    return OK;
}

static u64 bytes(u64 mib) { return mib == NOT_AVAILABLE ? mib : mib * MIB; }

/* Free memory in MiB: the timeline's step that holds now, else the plain figure. */
static u64 free_of(int gpu) {
    u64 free = number("free", gpu, 97249), since_ms = now_us() / 1000 - number("epoch", -1, 0);
    char key[40];
    snprintf(key, sizeof key, "timeline.%d", gpu);
    const char *at = value_of(key);
    while (at && *at && *at != '\n') {
        char *end;
        u64 from = strtoull(at, &end, 10), figure = strtoull(end + 1, &end, 10);
        if (from <= since_ms) free = figure;
        at = *end == ',' ? end + 1 : NULL;
    }
    return free;
}

struct memory { u64 total, free, used; };
struct memory_v2 { u32 version; u64 total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo(void *handle, struct memory *out) {
    ENTER_GPU("DeviceGetMemoryInfo");
    u64 total = number("total", gpu, 97887), free = free_of(gpu);
    out->total = bytes(total);
    out->free = bytes(free);
    out->used = bytes(number("used", gpu, free == NOT_AVAILABLE ? NOT_AVAILABLE : total - free));
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *out) {
    ENTER_GPU("DeviceGetMemoryInfo_v2");
    if (out->version != 0x02000028) return 25;
    u64 total = number("total", gpu, 97887), free = free_of(gpu), reserved = number("reserved", gpu, 638);
    out->total = bytes(total);
    out->free = bytes(free);
    out->reserved = bytes(reserved);
    out->used = bytes(number("used", gpu, free == NOT_AVAILABLE ? NOT_AVAILABLE : total - free - reserved));
    return OK;
}

struct utilization { u32 gpu, memory; };

int nvmlDeviceGetUtilizationRates(void *handle, struct utilization *out) {
    ENTER_GPU("DeviceGetUtilizationRates");
    out->gpu = number("util", gpu, 97);
    out->memory = number("bandwidth", gpu, 41);
    return OK;
}

#define SENSOR(function, key, otherwise)                        \
    int nvml##function(void *handle, u32 *out) {                \
        ENTER_GPU(#function);                                   \
        *out = number(key, gpu, otherwise);                     \
        return OK;                                              \
    }

SENSOR(DeviceGetPowerUsage, "power", 281500)
SENSOR(DeviceGetEnforcedPowerLimit, "power_limit", 300000)
SENSOR(DeviceGetFanSpeed, "fan", 40)

int nvmlDeviceGetTemperature(void *handle, u32 sensor, u32 *out) {
    ENTER_GPU("DeviceGetTemperature");
    *out = sensor == 0 ? number("temperature", gpu, 71) : 0;
    return OK;
}

int nvmlDeviceGetClockInfo(void *handle, u32 kind, u32 *out) {
    ENTER_GPU("DeviceGetClockInfo");
    *out = kind == 1 ? number("sm_clock", gpu, 2430) : 0;
    return OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *handle, u64 *out) {
    ENTER_GPU("DeviceGetCurrentClocksEventReasons");
    *out = number("throttle", gpu, 4);
    return OK;
}

/* Calls that the sampler must never make; they are here so that the call log would show them. */
int nvmlDeviceGetPcieThroughput(void *handle, u32 counter, u32 *out) {
    (void)counter;
    ENTER_GPU("DeviceGetPcieThroughput");
    *out = 0;
    return OK;
}

#define PROCESSES(function)                                     \
    int nvml##function(void *handle, u32 *count, void *rows) {  \
        (void)rows;                                             \
        ENTER_GPU(#function);                                   \
        *count = 0;                                             \
        return OK;                                              \
    }

PROCESSES(DeviceGetComputeRunningProcesses_v3)
PROCESSES(DeviceGetGraphicsRunningProcesses_v3)
