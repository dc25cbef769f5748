/* Supple's soft tissue without Python: steps of a character whose rig the host animates.
 *
 * `supple export MODEL -o DIR` writes a .live file and this runtime, which is compiled from the same kernels as
 * Supple's own step. The host provides all memory; nothing is allocated and there are no global variables, so
 * different instances may be used by different threads at the same time. One instance belongs to one thread at a
 * time. Lengths are metres, angles radians, forces newtons.
 *
 *     supple_model model;
 *     if (supple_open(&model, bytes, size) != SUPPLE_OK) ...
 *     void *memory = aligned_alloc(64, supple_instance_size(&model));
 *     supple_instance *body = supple_make(&model, memory, supple_instance_size(&model));
 *     supple_reset(body, NULL, NULL);
 *     for (;;) { supple_step(body, pose, root); supple_surface(body, skin); }
 */
#ifndef SUPPLE_RUNTIME_H
#define SUPPLE_RUNTIME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef SUPPLE_API
#define SUPPLE_API
#endif

enum supple_status {
  SUPPLE_OK = 0,
  SUPPLE_NOT_A_FILE = 1,  /* not a .live file, or cut off */
  SUPPLE_VERSION = 2,     /* a .live file of another version */
  SUPPLE_TARGET = 3,      /* a .live file for pointers of another size */
  SUPPLE_DAMAGED = 4,     /* the checksum is wrong */
  SUPPLE_MALFORMED = 5,   /* a table of the file is inconsistent */
  SUPPLE_KERNELS = 6,     /* the file needs compiled functions that this runtime does not have */
  SUPPLE_MEMORY = 7,      /* memory is missing, too small or not aligned to 64 bytes */
  SUPPLE_NOT_READY = 8,   /* the instance was not reset, or a step failed after its pose was taken */
  SUPPLE_REFUSED = 9,     /* an input cannot be used; `supple_error` says why; the flesh is unchanged */
  SUPPLE_UNKNOWN = 10     /* a name or an index that the model does not have */
};

/* Bits of `supple_limits`: limits that acted in the last step, none in a regular one. */
enum supple_limit {
  SUPPLE_LIMIT_ACCELERATION = 1, /* accelerations of the rig were clamped */
  SUPPLE_LIMIT_TELEPORT = 2,     /* the rig jumped, so that no inertia acts */
  SUPPLE_LIMIT_STIFFNESS = 4,    /* the stiffness was projected to be positive definite */
  SUPPLE_LIMIT_REST = 8,         /* the pose flattens tets, which were left out */
  SUPPLE_LIMIT_DISPLACEMENT = 16, /* displacements were clamped */
  SUPPLE_LIMIT_RESET = 32,       /* the state was not finite and was reset */
  SUPPLE_LIMIT_INVERSION = 64    /* many tets are inverted */
};

#define SUPPLE_ALIGNMENT 64
#define SUPPLE_MOST_KERNELS 64
#define SUPPLE_SECTIONS 8

/* An open .live file. Its fields are the runtime's own; it refers to the bytes, which must stay where they are. */
typedef struct supple_model {
  const unsigned char *bytes;
  uint64_t size;
  int32_t kernels[SUPPLE_MOST_KERNELS];
  int32_t sections[SUPPLE_SECTIONS];
} supple_model;

typedef struct supple_instance supple_instance;

/* Open a .live file in memory, aligned to 64 bytes. Instances share it and never change it. */
SUPPLE_API int32_t supple_open(supple_model *model, const void *bytes, uint64_t size);

/* Text of a status. */
SUPPLE_API const char *supple_status_text(int32_t status);

/* Bytes that an instance needs. */
SUPPLE_API uint64_t supple_instance_size(const supple_model *model);

/* Make an instance in memory of this size, aligned to 64 bytes; NULL if the memory does not fit. There is nothing to
   free but the memory. */
SUPPLE_API supple_instance *supple_make(const supple_model *model, void *memory, uint64_t size);

/* Copy the state of an instance to another one of the same model. */
SUPPLE_API int32_t supple_copy(const supple_instance *from, supple_instance *to);

/* Numbers of a pose, of skin vertices, and of triangles. */
SUPPLE_API int64_t supple_pose_size(const supple_model *model);
SUPPLE_API int64_t supple_vertex_count(const supple_model *model);
SUPPLE_API int64_t supple_triangle_count(const supple_model *model);

/* Rest pose, and three vertices of each triangle. */
SUPPLE_API const double *supple_rest_pose(const supple_model *model);
SUPPLE_API const int32_t *supple_triangles(const supple_model *model);

/* A text of the model: "name", or "parameters", the names of a pose's numbers, one a line. NULL if there is none. */
SUPPLE_API const char *supple_text(const supple_model *model, const char *name);

/* Seconds of a step. */
SUPPLE_API double supple_dt(const supple_model *model);

/* Start at rest at a pose and a root, a rigid transform of 4 x 4 row by row from the rig to the world. NULL is the
   rest pose, and the identity. */
SUPPLE_API int32_t supple_reset(supple_instance *instance, const double *pose, const double *root);

/* Go to a pose and a root with the flesh as it is in the root's frame: no inertia acts. NULL is where it was. */
SUPPLE_API int32_t supple_teleport(supple_instance *instance, const double *pose, const double *root);

/* Advance by supple_dt to a pose and a root. NULL is where it was. Forces of `supple_poke` act, and are then
   forgotten. */
SUPPLE_API int32_t supple_step(supple_instance *instance, const double *pose, const double *root);

/* Add a force (3), in the world, on a skin vertex in the next step; at most 256 of them. */
SUPPLE_API int32_t supple_poke(supple_instance *instance, int64_t vertex, const double *force);

/* Write the skin in the world, three numbers a vertex; into the instance alone for NULL. */
SUPPLE_API int32_t supple_surface(supple_instance *instance, float *positions);

/* The skin that `supple_surface` wrote last, in the instance. */
SUPPLE_API const float *supple_skin(const supple_instance *instance);

/* Factor on the stiffness of the flesh, 0.001 to 1000; 1 in a new instance. */
SUPPLE_API int32_t supple_set_stiffness(supple_instance *instance, double factor);

/* Bits of limits that acted in the last step. */
SUPPLE_API int64_t supple_limits(const supple_instance *instance);

/* Seconds since the last reset or teleport. */
SUPPLE_API double supple_time(const supple_instance *instance);

/* Why the last call was refused; empty if it was not. */
SUPPLE_API const char *supple_error(const supple_instance *instance);

#ifdef __cplusplus
}
#endif
#endif
