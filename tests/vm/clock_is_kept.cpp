// SPDX-License-Identifier: MIT
// Says to the kernel, as a time server's daemon does, that its clock is right. For guests alone.
#include <sys/timex.h>

#include <cstdio>

int main() {
  timex kept{};
  // A status without STA_UNSYNC, and no error, for a large one would set that again.
  kept.modes = ADJ_STATUS | ADJ_MAXERROR;
  const int state = ::adjtimex(&kept);
  if (state != TIME_OK) std::printf("adjtimex: %d\n", state);
  return state == TIME_OK ? 0 : 1;
}
