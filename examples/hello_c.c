// SPDX-License-Identifier: MIT
/* The smallest whole program in C: join the job, reduce a vector over all ranks, leave together.
     cc -std=c99 hello_c.c $(pkg-config --cflags --libs qpmesh) -o hello_c && qpmesh-run -np 4
   hello_c */
#include <qpmesh/qpmesh.h>
#include <stdio.h>

static int check(int code) {
  if (code != QPMESH_OK) fprintf(stderr, "%s\n", qpmesh_error_text());
  return code;
}

int main(void) {
  enum { count = 1000 };
  float values[count];
  qpmesh_communicator* world = NULL;
  int code, ranks, right = 1, i;

  for (i = 0; i < count; ++i) values[i] = 1.0f;
  if (check(qpmesh_init(&world)) != QPMESH_OK) return 1;
  ranks = qpmesh_size(world);
  code = check(qpmesh_allreduce(world, values, values, count, QPMESH_FLOAT32, QPMESH_SUM, NULL));
  for (i = 0; i < count; ++i) right = right && values[i] == (float)ranks;
  if (code == QPMESH_OK && qpmesh_rank(world) == 0)
    printf("%d ranks, each element %g\n", ranks, values[0]);
  if (check(qpmesh_finalize(world, NULL)) != QPMESH_OK) code = 1;
  return code == QPMESH_OK && right ? 0 : 1;
}
