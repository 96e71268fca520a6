! SPDX-License-Identifier: BSD-3-Clause
! The Fortran side of link.c: what gfortran passes and returns, hidden lengths and complex functions included.
program link
  implicit none
  double precision, external :: ddot
  complex(kind(1d0)), external :: zdotu
  complex, external :: cdotc
  external :: dgemm, zgemm, dgesv, zherk
  double precision :: a(2, 2), b(2, 2), c(2, 2), rhs(2)
  complex(kind(1d0)) :: za(2, 2), zc(2, 2)
  complex :: cx(2)
  integer :: pivots(2), info, wrong
  wrong = 0
  a = reshape([1d0, 2d0, 3d0, 4d0], [2, 2])
  b = reshape([5d0, 6d0, 7d0, 8d0], [2, 2])
  call dgemm('N', 'Trans', 2, 2, 2, 1d0, a, 2, b, 2, 0d0, c, 2)
  if (any(c /= matmul(a, transpose(b)))) wrong = wrong + 1
  za = cmplx(a, b, kind(1d0))
  call zgemm('c', 'n', 2, 2, 2, (1d0, 0d0), za, 2, za, 2, (0d0, 0d0), zc, 2)
  if (any(zc /= matmul(conjg(transpose(za)), za))) wrong = wrong + 1
  if (ddot(4, a, 1, b, 1) /= 70d0) wrong = wrong + 1
  if (zdotu(2, za, 1, za, 1) /= (1d0, 5d0)**2 + (2d0, 6d0)**2) wrong = wrong + 1
  cx = [(1., 2.), (3., 4.)]
  if (cdotc(2, cx, 1, cx, 1) /= (30., 0.)) wrong = wrong + 1
  rhs = [2d0, 8d0]
  a = reshape([2d0, 0d0, 0d0, 4d0], [2, 2])
  call dgesv(2, 1, a, 2, pivots, rhs, 2, info)
  if (info /= 0 .or. rhs(1) /= 1d0 .or. rhs(2) /= 2d0) wrong = wrong + 1
  if (wrong == 0) then
    print '(a)', 'right'
  else
    print '(a, i0)', 'wrong: ', wrong
  end if
end program
