/* SPDX-License-Identifier: BSD-3-Clause
 * Two variables that Debian's CBLAS test programs expect from the reference BLAS and that OpenBLAS
 * does not have; without them the programs do not start. Preloaded by blas-testers.sh. */
extern int CBLAS_CallFromC, RowMajorStrg;
int CBLAS_CallFromC = 0;
int RowMajorStrg = 0;
