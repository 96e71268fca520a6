/* SPDX-License-Identifier: BSD-3-Clause
 * Stand-ins for the libraries a program may bring along, one per macro; resolve.c asks which of
 * them a name leads to. Nothing here computes. */

void dgemm_(void);
void dgemm_(void)
{
}

#ifdef STUB_PLAIN
void cblas_dgemm(void);
void cblas_dgemm(void)
{
}
#endif

#ifdef STUB_REFERENCE /* what netlib's CBLAS shows */
int RowMajorStrg;
void cblas_dgemm(void);
void cblas_dgemm(void)
{
}
#endif

#ifdef STUB_WIDE /* OpenBLAS built with INTERFACE64 and no suffix, with internals that capture     \
                    others' */
const char *openblas_get_config(void);
const char *openblas_get_config(void)
{
    return "OpenBLAS 0.3.21 USE64BITINT DYNAMIC_ARCH";
}
void exec_blas(void);
void exec_blas(void)
{
}
void dgemm_64_(void);
void dgemm_64_(void)
{
}
#endif

#ifdef STUB_VERSION
int openblas_get_parallel(void);
int openblas_get_parallel(void)
{
    return 1;
}
const char *openblas_get_config(void);
const char *openblas_get_config(void)
{
    (void)openblas_get_parallel(); /* by name, as OpenBLAS does */
    return "OpenBLAS " STUB_VERSION " DYNAMIC_ARCH";
}
int openblas_get_num_threads(void);
int openblas_get_num_threads(void)
{
    return 77;
}
void dgemmt_(void);
void dgemmt_(void)
{
}
void shgemm_(void);
void shgemm_(void)
{
}
#endif

#ifdef STUB_OVER_OURS /* so that the linker keeps our library among its dependencies */
const char *tileblas_marker(void);
const char *stub_needs(void);
const char *stub_needs(void)
{
    return tileblas_marker();
}
#endif

#ifdef STUB_MKL
void mkl_get_version(void);
void mkl_get_version(void)
{
}
void dgemm(void);
void dgemm(void)
{
}
#endif
