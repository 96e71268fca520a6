#define _GNU_SOURCE
#include "fallback.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
struct tb_found fallback_find(const char *name, const void *caller, bool door){ (void)caller;(void)door; void*p=dlsym(RTLD_NEXT,name); if(!p){void*h=dlopen("libopenblas.so.0",RTLD_NOW|RTLD_LOCAL); p=dlsym(h,name);} return (struct tb_found){.fn=(tb_fn)p,.origin=(tb_fn)p,.path="stub"};}
bool fallback_call(const struct tb_call*c){(void)c;return false;}
bool fallback_rect(const struct tb_call*c,const struct tb_rect*r){(void)c;(void)r;return false;}
void fallback_xerbla(const struct tb_call*c,int i){(void)c;(void)i;}
void fallback_missing(const char*n){(void)n;_exit(127);}
int fallback_threads(void){return 2;}
const char*fallback_path(void){return "";}
