# The CPU side is part of the core.
libtbcore_la_SOURCES += fallback/fallback.h fallback/stub.c
