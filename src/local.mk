# The library behind the doors.
noinst_LTLIBRARIES += libtbcore.la
libtbcore_la_CFLAGS = $(strict_cflags)
libtbcore_la_SOURCES = \
	src/call.c src/call.h src/caps.h \
	src/calibrate.c src/calibrate.h \
	src/conf.c src/conf.h src/conf.def \
	src/dev.h src/device.c src/device.h \
	src/exec.c src/exec.h \
	src/explain.c src/explain.h \
	src/fit.c src/fit.h \
	src/kernel.c src/kernel.h kernels/kernels.def kernels/images.def kernels/kparams.h kernels/order.h \
	kernels/smem.h kernels/fold.h kernels/x3.h \
	src/log.c src/log.h \
	src/offload.c src/offload.h \
	src/oncpu.c src/oncpu.h \
	src/pace.c src/pace.h \
	src/place.c src/place.h \
	src/plan.c src/plan.h src/plan_strips.c src/plan_strips.h \
	src/pool.c src/pool.h \
	src/profile.c src/profile.h \
	src/route.c src/route.h src/routines.def \
	src/run.c src/run.h \
	src/shape.c src/shape.h \
	src/stage.c src/stage.h \
	src/status.c src/status.h src/trace.c src/trace.h src/spans.c src/spans.h src/tuned.c src/tuned.h src/undone.c \
	src/verify.c src/verify.h src/version.h \
	src/watch.c src/watch.h

# The device of this build: CUDA, or none. The tests' simulated one takes its place in libtileblas-sim.so.
noinst_LTLIBRARIES += libtbdev.la
libtbdev_la_CFLAGS = $(strict_cflags)
libtbdev_la_CPPFLAGS = $(AM_CPPFLAGS)
if HAVE_CUDA
libtbdev_la_CPPFLAGS += -isystem $(CUDA_INCLUDE)
libtbdev_la_SOURCES = src/dev_cuda.c src/driver.c src/driver.h src/driver.def
libtbdev_la_LIBADD = libtbimages.la
else
libtbdev_la_SOURCES = src/dev_none.c
endif
EXTRA_DIST += src/dev_none.c src/dev_cuda.c src/driver.c src/driver.h src/driver.def

# Both in one archive, for programs: they call each other.
noinst_LTLIBRARIES += libtbwhole.la
libtbwhole_la_SOURCES =
libtbwhole_la_LIBADD = libtbcore.la libtbdev.la
