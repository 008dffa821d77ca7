#ifndef POWERCUT_RECORDER_H
#define POWERCUT_RECORDER_H

#include <stddef.h>

int recorder_install(void);
void recorder_start(const char *dir);
void recorder_mark(long long n);
char *recorder_stop(size_t *len);

#endif
