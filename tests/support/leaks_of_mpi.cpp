// SPDX-License-Identifier: MIT
// What Open MPI and the libraries under it never free, for programs that start it under
// AddressSanitizer. In the program and not in the environment, because launchers and tests start
// programs with an environment of their own.
#if defined(__SANITIZE_ADDRESS__)

// The names that the sanitizer, a shared library, looks for in the program: hence the visibility.
extern "C" [[gnu::visibility("default")]] const char* __asan_default_options();
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions();

// Stacks through libraries without frame pointers need the slow unwinder, or no suppression finds
// its name.
const char* __asan_default_options() { return "fast_unwind_on_malloc=0"; }

const char* __lsan_default_suppressions() {
  return "leak:libmpi.so\n"
         "leak:libopen-pal.so\n"
         "leak:libopen-rte.so\n"
         "leak:libpmix.so\n"
         "leak:libhwloc.so\n"
         "leak:libevent_core\n"
         "leak:mca_\n";
}

#endif
