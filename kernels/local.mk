# The kernels: one fatbin per element type, put into the library by the assembler. What ptxas says about
# registers and spills is kept beside each fatbin.
kernel_images = F16 BF16 F32 F64 C32 C64
kernel_sources = $(srcdir)/kernels/gemm_simt.cu $(srcdir)/kernels/gemm_simt.cuh \
	$(srcdir)/kernels/elem.cuh $(srcdir)/kernels/tile.cuh $(srcdir)/kernels/smem.h \
	$(srcdir)/kernels/kparams.h $(srcdir)/kernels/kernels.def
NVCCFLAGS = -O3
EXTRA_DIST += kernels/README.md kernels/gemm_simt.cu kernels/gemm_simt.cuh kernels/elem.cuh \
	kernels/tile.cuh kernels/images.S kernels/images.h

if HAVE_CUDA
fatbins = kernels/F16.fatbin kernels/BF16.fatbin kernels/F32.fatbin kernels/F64.fatbin \
	kernels/C32.fatbin kernels/C64.fatbin
CLEANFILES += $(fatbins) $(fatbins:=.ptxas)

$(fatbins): $(kernel_sources)
	$(AM_V_GEN)$(MKDIR_P) kernels && $(NVCC) -std=c++17 $(NVCCFLAGS) $(TB_GENCODE) -fatbin \
	  --compress-mode=size -Xptxas -v,-warn-spills -DTB_ONLY_$(basename $(@F)) -o $@ \
	  $(srcdir)/kernels/gemm_simt.cu > $@.ptxas 2>&1 || { cat $@.ptxas >&2; rm -f $@; exit 1; }

noinst_LTLIBRARIES += libtbimages.la
libtbimages_la_SOURCES = kernels/images.S
libtbimages_la_CCASFLAGS = $(AM_CCASFLAGS) -Wa,-Ikernels
$(libtbimages_la_OBJECTS): $(fatbins)

# Registers spilled to memory, in any kernel of any image, are a defect.
check-spills: $(fatbins)
	@for f in $(fatbins); do \
	  test -s $$f.ptxas || { echo "$$f.ptxas is missing: rebuild $$f" >&2; exit 1; }; \
	  grep -q 'bytes spill stores' $$f.ptxas || { echo "$$f.ptxas tells nothing of spills" >&2; exit 1; }; \
	  ! grep -E '[1-9][0-9]* bytes spill|warning.*[Ss]pill' $$f.ptxas || { echo "$$f spills" >&2; exit 1; }; \
	done; echo "no kernel spills registers"
endif
