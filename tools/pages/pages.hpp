// SPDX-License-Identifier: MIT
// The pages of a tool (man page, completion in bash), from what its --help is made of: nothing of
// them stands anywhere else.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace qpmesh::pages {

// Adds --version, and, told nobody, --man and --completion, which print a page and end. summary: of
// the tool, in one line without a full stop.
void add_to(CLI::App& app, std::string_view summary);

// In man(7)'s macros, and as a script that bash-completion loads.
std::string man_page(const CLI::App& app, std::string_view summary);
std::string completion(const CLI::App& app);

}  // namespace qpmesh::pages
