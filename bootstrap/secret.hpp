// Where the secret of a job over TCP comes from.
#pragma once

#include <string>
#include <string_view>

#include "bootstrap/launcher.hpp"

namespace qpmesh::bootstrap {

inline constexpr std::size_t secret_characters_min = 16;
inline constexpr std::size_t secret_characters_max = 4096;

// QPMESH_SECRET_FILE, else QPMESH_SECRET, else the launcher's key for this job (launcher_variable,
// where it has one), else ~/.config/qpmesh/secret, which is made at first use. Without may_make the
// value is empty where the file is not there yet. Throws Error{bad_config}.
Secret find_secret(const Environment& environment, std::string_view launcher_variable,
                   bool may_make = true);

}  // namespace qpmesh::bootstrap
