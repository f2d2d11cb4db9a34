#include "qpmesh/options.hpp"

namespace qpmesh {

Options Options::from_environment() { return {}; }

}  // namespace qpmesh
