// SPDX-License-Identifier: MIT
// C = A B, all three cut into a block for each rank of a grid (SUMMA): for each k, column k of A
// goes along the rows of the grid, row k of B down its columns, and each rank adds their product.
#include <mpi.h>
#include <stdio.h>

enum { n = 48 };

int main(void) {
  MPI_Init(NULL, NULL);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rows = size % 2 == 0 ? 2 : 1;
  const int height = n / rows, width = n / (size / rows);  // of a block
  const int top = rank / (size / rows) * height, left = rank % (size / rows) * width;
  MPI_Comm row, column;
  MPI_Comm_split(MPI_COMM_WORLD, top, 0, &row);
  MPI_Comm_split(MPI_COMM_WORLD, left, 0, &column);
  static double c[n * n], a_column[n], b_row[n];
  for (int k = 0; k < n; ++k) {
    if (k / width == left / width)
      for (int i = 0; i < height; ++i) a_column[i] = top + i + k;  // A: i + k
    if (k / height == top / height)
      for (int j = 0; j < width; ++j) b_row[j] = k - left - j;  // B: k - j
    MPI_Bcast(a_column, height, MPI_DOUBLE, k / width, row);
    MPI_Bcast(b_row, width, MPI_DOUBLE, k / height, column);
    for (int i = 0; i < height; ++i)
      for (int j = 0; j < width; ++j) c[i * width + j] += a_column[i] * b_row[j];
  }
  int right = 1;
  for (int i = top; i < top + height; ++i)
    for (int j = left; j < left + width; ++j)
      right &= c[(i - top) * width + j - left] ==
               (i - j) * n * (n - 1) / 2 - n * i * j + (n - 1) * n * (2 * n - 1) / 6;
  MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  if (rank == 0) printf("SUMMA: %s\n", right ? "right" : "wrong");
  MPI_Comm_free(&row);
  MPI_Comm_free(&column);
  MPI_Finalize();
  return right ? 0 : 1;
}
