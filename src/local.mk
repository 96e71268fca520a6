# The library behind the doors.
noinst_LTLIBRARIES += libtbcore.la
libtbcore_la_CFLAGS = $(strict_cflags)
libtbcore_la_SOURCES = \
	src/call.c src/call.h src/caps.h \
	src/conf.c src/conf.h src/conf.def \
	src/log.c src/log.h \
	src/offload.c src/offload.h \
	src/route.c src/route.h src/routines.def \
	src/run.c src/run.h \
	src/status.c src/status.h src/version.h \
	src/dev.h src/device.h src/plan.h

# The device of this build.
noinst_LTLIBRARIES += libtbdev.la
libtbdev_la_CFLAGS = $(strict_cflags)
libtbdev_la_SOURCES = src/dev_none.c
