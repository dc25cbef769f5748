/* Shakes a character up and down for two seconds and prints how far its flesh lags behind its rig.
 *
 *     cc example.c -L. -lsupple_runtime -lm -o example && ./example gorilla.live
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "supple_runtime.h"

static void *aligned(uint64_t size) { return aligned_alloc(64, (size_t)(size + 63) / 64 * 64); }

static void *read_file(const char *path, uint64_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  long end = ftell(file);
  rewind(file);
  void *bytes = end > 0 ? aligned((uint64_t)end) : NULL;
  *size = bytes ? fread(bytes, 1, (size_t)end, file) : 0;
  fclose(file);
  return bytes;
}

int main(int count, char **arguments) {
  supple_model model;
  uint64_t size = 0;
  if (count != 2) return fprintf(stderr, "usage: example MODEL.live\n"), 2;
  void *bytes = read_file(arguments[1], &size);
  int32_t status = supple_open(&model, bytes, size);
  if (status != SUPPLE_OK) return fprintf(stderr, "%s: %s\n", arguments[1], supple_status_text(status)), 1;

  uint64_t memory_size = supple_instance_size(&model);
  supple_instance *body = supple_make(&model, aligned(memory_size), memory_size);
  int64_t vertices = supple_vertex_count(&model);
  float *skin = malloc(12 * (size_t)vertices), *rest = malloc(12 * (size_t)vertices);
  if (!body || !skin || !rest) return fprintf(stderr, "out of memory\n"), 1;
  printf("%s: %lld vertices, %lld numbers a pose, %.0f bytes a body\n", supple_text(&model, "name"),
         (long long)vertices, (long long)supple_pose_size(&model), (double)memory_size);

  double root[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  supple_reset(body, NULL, root);
  supple_surface(body, rest);
  for (int step = 1; supple_time(body) < 2; step++) {
    root[7] = 0.1 * sin(12 * supple_time(body));
    status = supple_step(body, NULL, root);
    if (status == SUPPLE_OK) status = supple_surface(body, skin);
    if (status != SUPPLE_OK) return fprintf(stderr, "step %d: %s\n", step, supple_error(body)), 1;
    double farthest = 0;
    for (int64_t v = 0; v < vertices; v++) {
      double x = skin[3 * v] - rest[3 * v], y = skin[3 * v + 1] - rest[3 * v + 1] - root[7],
             z = skin[3 * v + 2] - rest[3 * v + 2];
      farthest = fmax(farthest, sqrt(x * x + y * y + z * z));
    }
    if (step % 15 == 0) printf("%5.2f s: flesh moves by up to %.4f m\n", supple_time(body), farthest);
  }
  return 0;
}
