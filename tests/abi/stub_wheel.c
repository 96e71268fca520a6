/* SPDX-License-Identifier: BSD-3-Clause
 * Stand-in for the OpenBLAS inside a Python wheel: only suffixed names with a prefix. */

void scipy_dgemm_64_(void);
void scipy_dgemm_64_(void)
{
}
void scipy_cblas_dgemm64_(void);
void scipy_cblas_dgemm64_(void)
{
}
