// SPDX-License-Identifier: MIT
// The parts of the standard library that the interface names: function, plus and its relatives,
// duration and steady_clock, shared_ptr and unique_ptr, the range concepts. libstdc++ keeps each in
// a header of its own. The public headers around them double what a user's file costs to compile.
#pragma once

#if __has_include(<bits/chrono.h>) && __has_include(<bits/shared_ptr.h>) && \
    __has_include(<bits/std_function.h>) && __has_include(<bits/ranges_base.h>)
#include <cstddef>
#include <iterator>
#include <span>
#include <string>

#include <bits/chrono.h>
#include <bits/ranges_base.h>
#include <bits/shared_ptr.h>
#include <bits/std_function.h>
#include <bits/stl_function.h>
#include <bits/unique_ptr.h>
#else
#include <chrono>
#include <functional>
#include <memory>
#include <ranges>
#endif
