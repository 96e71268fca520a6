# The kernels: one fatbin per element type and family, put into the library by the assembler. What ptxas
# says about registers and spills is kept beside each fatbin.
kernel_sources = $(srcdir)/kernels/gemm_simt.cu $(srcdir)/kernels/gemm_simt.cuh \
	$(srcdir)/kernels/elem.cuh $(srcdir)/kernels/tile.cuh $(srcdir)/kernels/smem.h $(srcdir)/kernels/fold.h \
	$(srcdir)/kernels/kparams.h $(srcdir)/kernels/order.h $(srcdir)/kernels/kernels.def
sm90_sources = $(srcdir)/kernels/gemm_sm90.cu $(srcdir)/kernels/gemm_sm90.cuh $(srcdir)/kernels/ptx.cuh \
	$(srcdir)/kernels/elem.cuh $(srcdir)/kernels/smem.h $(srcdir)/kernels/kparams.h $(srcdir)/kernels/order.h \
	$(srcdir)/kernels/kernels.def
sm80_sources = $(kernel_sources) $(srcdir)/kernels/gemm_sm80.cuh
NVCCFLAGS = -O3
EXTRA_DIST += kernels/README.md kernels/gemm_simt.cu kernels/gemm_simt.cuh kernels/elem.cuh \
	kernels/tile.cuh kernels/gemm_sm80.cu kernels/gemm_sm80.cuh kernels/gemm_sm90.cu \
	kernels/gemm_sm90.cuh kernels/ptx.cuh kernels/images.S kernels/images.h

if HAVE_CUDA
simt_fatbins = kernels/F16.fatbin kernels/BF16.fatbin kernels/F32.fatbin kernels/F64.fatbin \
	kernels/C32.fatbin kernels/C64.fatbin
sm80_fatbins = kernels/F16_SM80.fatbin kernels/BF16_SM80.fatbin
sm90_fatbins = kernels/F16_SM90.fatbin kernels/BF16_SM90.fatbin
fatbins = $(simt_fatbins) $(sm80_fatbins) $(sm90_fatbins)
CLEANFILES += $(fatbins) $(fatbins:=.ptxas)

kernel_image = $(AM_V_GEN)$(MKDIR_P) kernels && $(NVCC) -std=c++17 $(NVCCFLAGS) $(TB_GENCODE) -fatbin \
	  --compress-mode=size -Xptxas -v,-warn-spills -DTB_ONLY_$(basename $(@F)) -o $@ \
	  $< > $@.ptxas 2>&1 || { cat $@.ptxas >&2; rm -f $@; exit 1; }

$(simt_fatbins): $(srcdir)/kernels/gemm_simt.cu $(kernel_sources)
	$(kernel_image)
$(sm80_fatbins): $(srcdir)/kernels/gemm_sm80.cu $(sm80_sources)
	$(kernel_image)
# For an architecture that has no rows of the family, there is nothing in the image, and nothing to compile.
$(sm90_fatbins): $(srcdir)/kernels/gemm_sm90.cu $(sm90_sources)
	$(kernel_image)

noinst_LTLIBRARIES += libtbimages.la
libtbimages_la_SOURCES = kernels/images.S
libtbimages_la_CCASFLAGS = $(AM_CCASFLAGS) -Wa,-Ikernels
$(libtbimages_la_OBJECTS): $(fatbins)

# Registers spilled to memory, in any kernel of any image, are a defect, and so are products that wait for
# each other (C7508, C7510).
check-spills: $(fatbins)
	@for f in $(fatbins); do \
	  test -s $$f.ptxas || { echo "$$f.ptxas is missing: rebuild $$f" >&2; exit 1; }; \
	  case "$$f$(TB_GENCODE)" in *SM90*90a*|*SM80*code=sm_*) ;; *SM[89]0*) continue;; esac; \
	  grep -q 'bytes spill stores' $$f.ptxas || { echo "$$f.ptxas tells nothing of spills" >&2; exit 1; }; \
	  ! grep -E '[1-9][0-9]* bytes spill|warning.*[Ss]pill|C75[0-9][0-9]' $$f.ptxas || { echo "$$f spills" >&2; exit 1; }; \
	done; echo "no kernel spills registers"
endif
