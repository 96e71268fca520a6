# The doors, and the two libraries made of them.
noinst_LTLIBRARIES += libtbshim.la
libtbshim_la_CFLAGS = $(shim_cflags)
libtbshim_la_SOURCES = \
	shim/batch.c shim/cblas.c shim/fortran.c shim/fill.h shim/types.h \
	shim/doors.h shim/doors.def shim/names.h shim/openblas.def \
	shim/marker.c shim/resolve.c shim/resolve.h shim/summary.c

EXTRA_DIST += shim/symbols.map.in shim/trampolines.inc.S
include_HEADERS = shim/tileblas.h
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = shim/tileblas.pc

symbol_tables = $(srcdir)/shim/symbols.map.in $(srcdir)/shim/doors.def $(srcdir)/shim/names.h \
	$(srcdir)/shim/openblas.def $(srcdir)/src/routines.def
make_map = $(MKDIR_P) shim && $(CPP) -P -I$(srcdir)/shim

shim/preload.map: $(symbol_tables)
	$(AM_V_GEN)$(make_map) - < $(srcdir)/shim/symbols.map.in > $@.tmp && mv $@.tmp $@
shim/full.map: $(symbol_tables)
	$(AM_V_GEN)$(make_map) -DTB_ALL_NAMES - < $(srcdir)/shim/symbols.map.in > $@.tmp && mv $@.tmp $@
CLEANFILES += shim/preload.map shim/full.map

# nodelete: our threads, fork handlers and resolved slots must outlive a dlclose.
door_ldflags = $(AM_LDFLAGS) -Wl,-z,nodelete
if !SANITIZE
door_ldflags += -Wl,-z,defs
endif
door_libs = libtbshim.la libtbcore.la

lib_LTLIBRARIES += libtileblas.la libtileblas-preload.la

libtileblas_la_SOURCES = shim/trampolines_full.S
libtileblas_la_LIBADD = $(door_libs) libtbdev.la
libtileblas_la_LDFLAGS = $(door_ldflags) -version-info 0:0:0 -Wl,--version-script=shim/full.map
EXTRA_libtileblas_la_DEPENDENCIES = shim/full.map

libtileblas_preload_la_SOURCES = shim/trampolines_preload.S
libtileblas_preload_la_LIBADD = $(door_libs) libtbdev.la
libtileblas_preload_la_LDFLAGS = $(door_ldflags) -module -avoid-version \
	-Wl,--version-script=shim/preload.map
EXTRA_libtileblas_preload_la_DEPENDENCIES = shim/preload.map

# The linker script name says what an archive of the module would be for: nothing.
install-exec-hook:
	rm -f $(DESTDIR)$(libdir)/libtileblas-preload.la $(DESTDIR)$(libdir)/libtileblas.la
uninstall-local:
	rm -f $(DESTDIR)$(libdir)/libtileblas-preload.so $(DESTDIR)$(libdir)/libtileblas.so \
	  $(DESTDIR)$(libdir)/libtileblas.so.0 $(DESTDIR)$(libdir)/libtileblas.so.0.0.0
