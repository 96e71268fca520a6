% SPDX-License-Identifier: BSD-3-Clause
% Octave, all four types. Writes results for compare.awk to the file named on the command line; prints
% only what any right BLAS must give exactly. Run by run-client.sh, which reads the next line.
% must reach the device: sgemm dgemm cgemm zgemm
1;

% One block: numbers in column order, complex ones as pairs.
function emit (out, name, x, limit)
  e = double (eps (class (x)));
  x = double (x(:)).';
  if (iscomplex (x))
    x = [real(x); imag(x)];
  endif
  fprintf (out, "@ %s %d %.17g %.17g\n", name, numel (x), e, limit);
  fprintf (out, "%.17g\n", x);
endfunction

function x = noise (type, rows, cols)
  x = 2 * rand (rows, cols) - 1;
  if (any (type == "cz"))
    x = complex (x, 2 * rand (rows, cols) - 1);
  endif
  if (any (type == "sc"))
    x = single (x);
  endif
endfunction

function x = whole (type, rows, cols)
  x = round (3 * noise (type, rows, cols));
endfunction

out = fopen (argv (){end}, "w");
n = 120;
direct = sqrt (n);   % what two careful libraries may differ by
spectral = n;

for type = "sdcz"
  rand ("twister", 23);
  p = whole (type, 131, 67) * whole (type, 67, 45);
  printf ("%s exact product: %d %d\n", type, size (p));
  disp ([sum(p(:)), p(1, 1), p(end, end)]);

  a = noise (type, 150, n);
  b = noise (type, n, 70);
  m = noise (type, n, n) + n * eye (n);
  h = noise (type, n, n);
  h = (h + h') / 2;
  emit (out, [type "-product"], a * b, direct);
  emit (out, [type "-product-of-transposed"], b.' * a.', direct);
  emit (out, [type "-gram"], a' * a, direct);
  emit (out, [type "-other-gram"], a * a.', direct);
  emit (out, [type "-solve"], m \ b, direct);
  emit (out, [type "-inverse"], inv (m), direct);
  emit (out, [type "-cholesky"], chol (h + n * eye (n)), direct);
  % Vectors have a free phase: a function of the matrix that needs them all has none.
  [v, w] = eig (h);
  w = real (diag (w));
  emit (out, [type "-eigenvalues"], w, spectral);
  emit (out, [type "-eigenvectors"], v * diag (1 ./ (1 + w .^ 2)) * v', spectral);
  [u, s, v] = svd (m);
  emit (out, [type "-singular-values"], diag (s), spectral);
  emit (out, [type "-singular-vectors"], u * v', spectral);
  [q, r] = qr (m);
  phase = diag (r) ./ abs (diag (r));
  emit (out, [type "-qr-q"], q * diag (phase), direct);
  emit (out, [type "-qr-r"], diag (conj (phase)) * r, direct);
endfor
fclose (out);
disp ("done");
