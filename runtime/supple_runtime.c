/* Runs the programs of .live files; see supple_runtime.h, and docs/live.md for the file. */
#include "supple_runtime.h"

#include <stddef.h>
#include <string.h>

#define VERSION 1
#define START 56
#define SHARED ((uint64_t)1 << 63)

/* Compiled functions, linked from the object file of `supple export`. */
struct kernel {
  const char *name;
  int64_t (*run)(void *arguments);
};
extern const struct kernel supple_kernels[];
extern const int32_t supple_kernel_count;

enum { KERNELS, CALLS, SECTIONS, ARRAYS, NUMBERS, TEXTS, POINTERS, POOL, TABLES };
static const uint32_t COLUMNS[TABLES] = {1, 4, 3, 6, 4, 2, 2, 0};

struct head {
  uint64_t shared, shared_size, content, content_size, instance_size, dt, engine, unused;
  struct {
    uint64_t at, count;
  } tables[TABLES];
};

enum { CHECK, PLACE, RESET, TELEPORT, FORCES, LOADS, SOLVE, SURFACE };
static const char *const SECTION_NAMES[SUPPLE_SECTIONS] = {"check",  "place", "reset", "teleport",
                                                           "forces", "loads", "solve", "surface"};

struct supple_instance {
  const supple_model *model;
  const char *error;
  int64_t steps;
  int32_t ready;
};
#define HEADER 64

/* BLAKE2b (RFC 7693) with a digest of 32 bytes. */

static const uint64_t IV[8] = {0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
                               0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u};
static const uint8_t SIGMA[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

static uint64_t rotated(uint64_t x, int by) { return (x >> by) | (x << (64 - by)); }

static void mix(uint64_t *v, int a, int b, int c, int d, uint64_t x, uint64_t y) {
  v[a] += v[b] + x;
  v[d] = rotated(v[d] ^ v[a], 32);
  v[c] += v[d];
  v[b] = rotated(v[b] ^ v[c], 24);
  v[a] += v[b] + y;
  v[d] = rotated(v[d] ^ v[a], 16);
  v[c] += v[d];
  v[b] = rotated(v[b] ^ v[c], 63);
}

static void digest(const unsigned char *bytes, uint64_t size, unsigned char *out) {
  uint64_t h[8], at = 0;
  memcpy(h, IV, sizeof h);
  h[0] ^= 0x01010000u ^ 32u;
  do {
    uint64_t m[16], v[16], part = size - at < 128 ? size - at : 128;
    memset(m, 0, sizeof m);
    memcpy(m, bytes + at, (size_t)part);
    at += part;
    memcpy(v, h, sizeof h);
    memcpy(v + 8, IV, sizeof IV);
    v[12] ^= at;
    if (at == size) v[14] = ~v[14];
    for (int r = 0; r < 12; r++) {
      const uint8_t *s = SIGMA[r % 10];
      mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
      mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
      mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
      mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
      mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
      mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
      mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
      mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 8; i++) h[i] ^= v[i] ^ v[i + 8];
  } while (at < size);
  memcpy(out, h, 32);
}

/* The file. */

static const struct head *head_of(const supple_model *model) { return (const struct head *)(model->bytes + START); }

static const uint64_t *rows(const supple_model *model, int table) {
  return (const uint64_t *)(model->bytes + head_of(model)->tables[table].at);
}

static const char *pooled(const supple_model *model, uint64_t at) {
  return (const char *)(model->bytes + head_of(model)->tables[POOL].at + at);
}

static int inside(uint64_t at, uint64_t length, uint64_t size) { return at <= size && length <= size - at; }

static int64_t named(const supple_model *model, int table, const char *name) {
  const uint64_t *row = rows(model, table);
  for (uint64_t i = 0; i < head_of(model)->tables[table].count; i++, row += COLUMNS[table])
    if (strcmp(pooled(model, row[0]), name) == 0) return (int64_t)i;
  return -1;
}

static const uint64_t *array_row(const supple_model *model, const char *name) {
  int64_t i = named(model, ARRAYS, name);
  return i < 0 ? NULL : rows(model, ARRAYS) + COLUMNS[ARRAYS] * (uint64_t)i;
}

static int has_array(const supple_model *model, const char *name, int shared, int kind, uint64_t least) {
  const uint64_t *row = array_row(model, name);
  return row && row[1] == (uint64_t)shared && row[3] == (uint64_t)kind && row[5] >= least;
}

/* Check that every table of a file stays inside the file or the instance; arguments of compiled functions are not
   checked. */
static int consistent(const supple_model *model) {
  const struct head *head = head_of(model);
  const uint64_t size = model->size, instance = head->instance_size, pool = head->tables[POOL].count;
  if (!inside(head->shared, head->shared_size, size) || !inside(head->content, head->content_size, size)) return 0;
  if (head->shared % SUPPLE_ALIGNMENT || head->content % 8 || head->content_size > instance || instance >> 40) return 0;
  for (int t = 0; t < TABLES; t++) {
    uint64_t width = t == POOL ? 1 : 8 * (uint64_t)COLUMNS[t], count = head->tables[t].count;
    if (count >> 40 || !inside(head->tables[t].at, count * width, size) || head->tables[t].at % 8 * (t != POOL))
      return 0;
  }
  if (pool == 0 || *pooled(model, pool - 1) || head->engine >= pool) return 0;
  if (head->tables[KERNELS].count > SUPPLE_MOST_KERNELS) return 0;
  for (int t = 0; t < POINTERS; t++) {
    const uint64_t *row = rows(model, t);
    for (uint64_t i = 0; i < head->tables[t].count; i++, row += COLUMNS[t]) {
      if (row[t == CALLS ? 3 : 0] >= pool) return 0;
      switch (t) {
        case CALLS:
          if (row[0] >= head->tables[KERNELS].count || row[1] % 8 || !inside(row[1], row[2], instance)) return 0;
          break;
        case SECTIONS:
          if (!inside(row[1], row[2], head->tables[CALLS].count)) return 0;
          break;
        case ARRAYS:
          if (row[1] > 1 || row[4] == 0 || row[4] > 8 || row[5] >> 40 || row[2] % row[4]) return 0;
          if (row[4] != (row[3] == 'i' || row[3] == 'f' ? 4u : row[3] == 'd' || row[3] == 'q' ? 8u : 0u)) return 0;
          if (!inside(row[2], row[4] * row[5], row[1] ? head->shared_size : instance)) return 0;
          break;
        case NUMBERS:
          if (row[1] % 8 || !inside(row[1], 8, instance)) return 0;
          break;
        case TEXTS:
          if (row[1] >= pool) return 0;
          break;
        default:
          break;
      }
    }
  }
  const uint64_t *pointer = rows(model, POINTERS);
  for (uint64_t i = 0; i < head->tables[POINTERS].count; i++, pointer += 2) {
    uint64_t target = pointer[1] & ~SHARED;
    if (pointer[0] % sizeof(void *) || !inside(pointer[0], sizeof(void *), instance)) return 0;
    if (target > (pointer[1] & SHARED ? head->shared_size : instance)) return 0;
  }
  return has_array(model, "pose", 0, 'd', 0) && has_array(model, "root", 0, 'd', 16) &&
         has_array(model, "rest_pose", 1, 'd', array_row(model, "pose")[5]) &&
         has_array(model, "last_pose", 0, 'd', array_row(model, "pose")[5]) &&
         has_array(model, "last_root", 0, 'd', 16) && has_array(model, "skin", 0, 'f', 0) &&
         has_array(model, "triangles", 1, 'i', 0) && has_array(model, "force_vertices", 0, 'q', 0) &&
         has_array(model, "forces", 0, 'd', 3 * array_row(model, "force_vertices")[5]) &&
         has_array(model, "force_count", 0, 'q', 1) && has_array(model, "limits", 0, 'q', 1);
}

int32_t supple_open(supple_model *model, const void *bytes, uint64_t size) {
  const unsigned char *file = (const unsigned char *)bytes;
  unsigned char found[32];
  uint32_t words[2];
  uint64_t total;
  memset(model, 0, sizeof *model);
  if (!file || (uintptr_t)file % SUPPLE_ALIGNMENT) return SUPPLE_MEMORY;
  if (size < START + sizeof(struct head) || memcmp(file, "supplive", 8)) return SUPPLE_NOT_A_FILE;
  memcpy(words, file + 8, 8);
  memcpy(&total, file + 16, 8);
  if (words[0] != VERSION) return SUPPLE_VERSION;
  if (words[1] != sizeof(void *)) return SUPPLE_TARGET;
  if (total != size) return SUPPLE_NOT_A_FILE;
  digest(file + START, size - START, found);
  if (memcmp(found, file + 24, 32)) return SUPPLE_DAMAGED;
  model->bytes = file;
  model->size = size;
  if (!consistent(model)) {
    model->bytes = NULL;
    return SUPPLE_MALFORMED;
  }
  for (uint64_t k = 0; k < head_of(model)->tables[KERNELS].count; k++) {
    const char *name = pooled(model, rows(model, KERNELS)[k]);
    int32_t i = 0;
    while (i < supple_kernel_count && strcmp(supple_kernels[i].name, name)) i++;
    if (i == supple_kernel_count) {
      model->bytes = NULL;
      return SUPPLE_KERNELS;
    }
    model->kernels[k] = i;
  }
  for (int s = 0; s < SUPPLE_SECTIONS; s++) {
    model->sections[s] = (int32_t)named(model, SECTIONS, SECTION_NAMES[s]);
    if (model->sections[s] < 0) {
      model->bytes = NULL;
      return SUPPLE_MALFORMED;
    }
  }
  return SUPPLE_OK;
}

const char *supple_status_text(int32_t status) {
  static const char *const TEXT[] = {
      "fine",
      "not a .live file, or cut off; export the model again",
      "a .live file of another version; export the model again",
      "a .live file for another target; export the model for this one",
      "a damaged .live file: its checksum is wrong; export the model again",
      "a .live file with an inconsistent table; export the model again",
      "the file needs functions that this runtime does not have; use the runtime that was exported with it",
      "memory is missing, too small, or not aligned to 64 bytes",
      "the instance is not ready; reset it",
      "an input was refused",
      "the model has no such name or index"};
  return status >= 0 && status < (int32_t)(sizeof TEXT / sizeof *TEXT) ? TEXT[status] : "unknown status";
}

static const void *array_of(const supple_model *model, const supple_instance *instance, const char *name) {
  const uint64_t *row = array_row(model, name);
  if (!row) return NULL;
  if (row[1]) return model->bytes + head_of(model)->shared + row[2];
  return instance ? (const unsigned char *)instance + HEADER + row[2]
                  : model->bytes + head_of(model)->content + row[2];
}

static int64_t count_of(const supple_model *model, const char *name) {
  const uint64_t *row = array_row(model, name);
  return row ? (int64_t)row[5] : 0;
}

int64_t supple_pose_size(const supple_model *model) { return count_of(model, "pose"); }
int64_t supple_vertex_count(const supple_model *model) { return count_of(model, "skin") / 3; }
int64_t supple_triangle_count(const supple_model *model) { return count_of(model, "triangles") / 3; }
const double *supple_rest_pose(const supple_model *model) { return array_of(model, NULL, "rest_pose"); }
const int32_t *supple_triangles(const supple_model *model) { return array_of(model, NULL, "triangles"); }

const char *supple_text(const supple_model *model, const char *name) {
  int64_t i = named(model, TEXTS, name);
  return i < 0 ? NULL : pooled(model, rows(model, TEXTS)[2 * i + 1]);
}

double supple_dt(const supple_model *model) {
  double dt;
  memcpy(&dt, &head_of(model)->dt, 8);
  return dt;
}

/* Instances. */

uint64_t supple_instance_size(const supple_model *model) { return HEADER + head_of(model)->instance_size; }

static void point(const supple_model *model, unsigned char *memory) {
  const struct head *head = head_of(model);
  const uint64_t *pointer = rows(model, POINTERS);
  for (uint64_t i = 0; i < head->tables[POINTERS].count; i++, pointer += 2) {
    const unsigned char *base = pointer[1] & SHARED ? model->bytes + head->shared : memory;
    const unsigned char *target = base + (pointer[1] & ~SHARED);
    memcpy(memory + pointer[0], &target, sizeof target);
  }
}

static void *array(supple_instance *instance, const char *name) {
  return (void *)array_of(instance->model, instance, name);
}

supple_instance *supple_make(const supple_model *model, void *memory, uint64_t size) {
  supple_instance *instance = (supple_instance *)memory;
  if (!memory || (uintptr_t)memory % SUPPLE_ALIGNMENT || size < supple_instance_size(model)) return NULL;
  const struct head *head = head_of(model);
  unsigned char *content = (unsigned char *)memory + HEADER;
  memset(memory, 0, HEADER);
  memcpy(content, model->bytes + head->content, (size_t)head->content_size);
  memset(content + head->content_size, 0, (size_t)(head->instance_size - head->content_size));
  point(model, content);
  instance->model = model;
  instance->error = "";
  *(int64_t *)array(instance, "force_count") = 0;
  return instance;
}

int32_t supple_copy(const supple_instance *from, supple_instance *to) {
  if (from->model->bytes != to->model->bytes) return SUPPLE_UNKNOWN;
  if (from == to) return SUPPLE_OK;
  memcpy((unsigned char *)to + HEADER, (const unsigned char *)from + HEADER,
         (size_t)head_of(from->model)->instance_size);
  point(to->model, (unsigned char *)to + HEADER);
  to->error = from->error;
  to->steps = from->steps;
  to->ready = from->ready;
  return SUPPLE_OK;
}

static int32_t run(supple_instance *instance, int section) {
  const supple_model *model = instance->model;
  const uint64_t *row = rows(model, SECTIONS) + COLUMNS[SECTIONS] * (uint64_t)model->sections[section];
  const uint64_t *call = rows(model, CALLS) + COLUMNS[CALLS] * row[1];
  for (uint64_t i = 0; i < row[2]; i++, call += COLUMNS[CALLS]) {
    if (supple_kernels[model->kernels[call[0]]].run((unsigned char *)instance + HEADER + call[1])) {
      instance->error = pooled(model, call[3]);
      return SUPPLE_REFUSED;
    }
  }
  return SUPPLE_OK;
}

/* Check inputs and place the rig; the arguments stay those of later calls with NULL. A refused pose or root is
   replaced by those of the state. */
static int32_t place(supple_instance *instance, const double *pose, const double *root) {
  const size_t pose_bytes = 8 * (size_t)supple_pose_size(instance->model);
  instance->error = "";
  if (pose) memcpy(array(instance, "pose"), pose, pose_bytes);
  if (root) memcpy(array(instance, "root"), root, 16 * 8);
  int32_t status = run(instance, CHECK);
  if (status == SUPPLE_OK) status = run(instance, PLACE);
  if (status != SUPPLE_OK) {
    const char *error = instance->error;
    memcpy(array(instance, "pose"), array(instance, "last_pose"), pose_bytes);
    memcpy(array(instance, "root"), array(instance, "last_root"), 16 * 8);
    instance->ready = instance->ready && run(instance, CHECK) == SUPPLE_OK && run(instance, PLACE) == SUPPLE_OK;
    instance->error = error;
  }
  return status;
}

static int32_t start(supple_instance *instance, const double *pose, const double *root, int section) {
  int32_t status = place(instance, pose, root);
  if (status != SUPPLE_OK) return status;
  status = run(instance, section);
  *(int64_t *)array(instance, "force_count") = 0;
  instance->ready = status == SUPPLE_OK;
  instance->steps = 0;
  return status;
}

int32_t supple_reset(supple_instance *instance, const double *pose, const double *root) {
  static const double IDENTITY[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  const double *at = pose ? pose : supple_rest_pose(instance->model);
  return start(instance, at, root ? root : IDENTITY, RESET);
}

int32_t supple_teleport(supple_instance *instance, const double *pose, const double *root) {
  instance->error = "";
  if (!instance->ready) return SUPPLE_NOT_READY;
  return start(instance, pose, root, TELEPORT);
}

int32_t supple_step(supple_instance *instance, const double *pose, const double *root) {
  instance->error = "";
  if (!instance->ready) return SUPPLE_NOT_READY;
  int64_t *count = (int64_t *)array(instance, "force_count");
  int32_t status = place(instance, pose, root);
  if (status == SUPPLE_OK) {
    status = run(instance, FORCES);
    if (status == SUPPLE_OK && *count > 0) status = run(instance, LOADS);
    if (status == SUPPLE_OK) status = run(instance, SOLVE);
    instance->ready = status == SUPPLE_OK;
    instance->steps += status == SUPPLE_OK;
  }
  *count = 0;
  return status;
}

int32_t supple_poke(supple_instance *instance, int64_t vertex, const double *force) {
  const supple_model *model = instance->model;
  int64_t *count = (int64_t *)array(instance, "force_count");
  instance->error = "";
  if (vertex < 0 || vertex >= supple_vertex_count(model)) return SUPPLE_UNKNOWN;
  if (*count < 0 || *count >= count_of(model, "force_vertices")) return SUPPLE_MEMORY;
  for (int i = 0; i < 3; i++)
    if (!(force[i] > -1e300 && force[i] < 1e300)) {
      instance->error = "a force is not finite";
      return SUPPLE_REFUSED;
    }
  ((int64_t *)array(instance, "force_vertices"))[*count] = vertex;
  memcpy((double *)array(instance, "forces") + 3 * *count, force, 24);
  ++*count;
  return SUPPLE_OK;
}

int32_t supple_surface(supple_instance *instance, float *positions) {
  instance->error = "";
  if (!instance->ready) return SUPPLE_NOT_READY;
  int32_t status = run(instance, SURFACE);
  if (status == SUPPLE_OK && positions)
    memcpy(positions, supple_skin(instance), 12 * (size_t)supple_vertex_count(instance->model));
  return status;
}

const float *supple_skin(const supple_instance *instance) { return array_of(instance->model, instance, "skin"); }

int32_t supple_set_stiffness(supple_instance *instance, double factor) {
  const supple_model *model = instance->model;
  int64_t i = named(model, NUMBERS, "stiffness");
  instance->error = "";
  if (i < 0) return SUPPLE_UNKNOWN;
  const uint64_t *row = rows(model, NUMBERS) + COLUMNS[NUMBERS] * (uint64_t)i;
  double bounds[2];
  memcpy(bounds, row + 2, 16);
  if (!(factor >= bounds[0] && factor <= bounds[1])) {
    instance->error = "stiffness must be between 0.001 and 1000";
    return SUPPLE_REFUSED;
  }
  memcpy((unsigned char *)instance + HEADER + row[1], &factor, 8);
  return SUPPLE_OK;
}

int64_t supple_limits(const supple_instance *instance) {
  return *(const int64_t *)array_of(instance->model, instance, "limits");
}

double supple_time(const supple_instance *instance) {
  return (double)instance->steps * supple_dt(instance->model);
}

const char *supple_error(const supple_instance *instance) { return instance->error; }

/* A function of NumPy that compiled code calls for `reshape`: strides of the same memory in a new shape, or 0. */

int32_t numba_attempt_nocopy_reshape(int64_t nd, const int64_t *dims, const int64_t *strides, int64_t new_nd,
                                     const int64_t *new_dims, int64_t *new_strides, int64_t item_size,
                                     int32_t fortran);

int32_t numba_attempt_nocopy_reshape(int64_t nd, const int64_t *dims, const int64_t *strides, int64_t new_nd,
                                     const int64_t *new_dims, int64_t *new_strides, int64_t item_size,
                                     int32_t fortran) {
  int64_t count = 1, step = item_size;
  if (fortran) return 0;
  for (int64_t k = nd - 1; k >= 0; k--) {
    if (dims[k] != 1 && strides[k] != count * item_size) return 0; /* all arrays of programs are contiguous */
    count *= dims[k];
  }
  for (int64_t k = new_nd - 1; k >= 0; k--) {
    new_strides[k] = step;
    step *= new_dims[k];
  }
  return step == count * item_size;
}
