// What the shared library shows: it is compiled with -fvisibility=hidden, and everything without
// this mark stays inside.
#pragma once

// Stands before a function, and between class and its name.
#ifdef __cplusplus
#define QPMESH_API [[gnu::visibility("default")]]
#else
#define QPMESH_API __attribute__((visibility("default")))
#endif
