# SPDX-License-Identifier: BSD-3-Clause
# R, double and complex. Writes results for compare.awk to the file named on the command line; prints
# only what any right BLAS must give exactly. Run by run-client.sh, which reads the next line.
# must reach the device: dgemm zgemm
out <- file(commandArgs(trailingOnly = TRUE)[1], "w")
eps <- .Machine$double.eps

# One block: numbers in column order, complex ones as pairs.
emit <- function(name, x, limit) {
    x <- as.vector(x)
    if (is.complex(x)) x <- as.vector(rbind(Re(x), Im(x)))
    writeLines(sprintf("@ %s %d %.17g %.17g", name, length(x), eps, limit), out)
    writeLines(sprintf("%.17g", x), out)
}

n <- 120
direct <- sqrt(n)   # what two careful libraries may differ by
spectral <- n
mrrr <- 4 * n       # eigen() uses relatively robust representations, which are less orthogonal

for (t in c("d", "z")) {
    set.seed(22)
    noise <- function(rows, cols) {
        x <- matrix(runif(rows * cols, -1, 1), rows)
        if (t == "z") x <- x + 1i * matrix(runif(rows * cols, -1, 1), rows)
        x
    }
    whole <- function(rows, cols) {
        x <- matrix(sample(-3:3, rows * cols, TRUE), rows) + 0
        if (t == "z") x <- x + 1i * matrix(sample(-3:3, rows * cols, TRUE), rows)
        x
    }
    p <- whole(131, 67) %*% whole(67, 45)
    cat(t, "exact product:", dim(p), format(sum(p)), format(p[1, 1]), format(p[131, 45]), "\n")

    a <- noise(150, n)
    b <- noise(n, 70)
    m <- noise(n, n) + n * diag(n)
    h <- noise(n, n)
    h <- (h + Conj(t(h))) / 2
    emit(paste0(t, "-product"), a %*% b, direct)
    emit(paste0(t, "-gram"), crossprod(a), direct)
    emit(paste0(t, "-other-gram"), tcrossprod(a), direct)
    emit(paste0(t, "-solve"), solve(m, b), direct)
    emit(paste0(t, "-inverse"), solve(m), direct)
    if (t == "d") {
        emit("d-cholesky", chol(h + n * diag(n)), direct)
        emit("d-backsolve", backsolve(m, b), direct)
        emit("d-determinant", determinant(m)$modulus, direct)
    }
    # Vectors have a free phase: a function of the matrix that needs them all has none.
    e <- eigen(h, symmetric = TRUE)
    emit(paste0(t, "-eigenvalues"), e$values, spectral)
    emit(paste0(t, "-eigenvectors"),
         e$vectors %*% ((1 / (1 + e$values^2)) * Conj(t(e$vectors))), mrrr)
    s <- svd(m)
    emit(paste0(t, "-singular-values"), s$d, spectral)
    emit(paste0(t, "-singular-vectors"), s$u %*% Conj(t(s$v)), spectral)
    # Pivoted: the product undoes the free phases.
    f <- qr(m, LAPACK = TRUE)
    emit(paste0(t, "-qr"), qr.Q(f) %*% qr.R(f), direct)
    emit(paste0(t, "-qr-r"), Mod(diag(qr.R(f))), direct)
}
close(out)
cat("done\n")
